#include "binding/activity_binding.h"

#include "binding/values.h"
#include "core/activity.h"

namespace muster::binding {

Napi::Value activityNow(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Napi::Object events = Napi::Object::New(env);
  for (size_t kind = 0; kind < kEventKinds; kind++) {
    const auto event = static_cast<Event>(kind);
    events.Set(std::string(nameOf(event)), static_cast<double>(activity().count(event)));
  }
  Napi::Array peers = Napi::Array::New(env);
  for (const Activity::PeerCount& each : activity().peers()) {
    Napi::Object peer = Napi::Object::New(env);
    peer.Set("peer", each.name);
    peer.Set("sent", static_cast<double>(each.sent));
    peer.Set("received", static_cast<double>(each.received));
    peers.Set(peers.Length(), peer);
  }
  Napi::Object out = Napi::Object::New(env);
  out.Set("opened", static_cast<double>(activity().opened));
  out.Set("accepted", static_cast<double>(activity().accepted));
  out.Set("events", events);
  out.Set("peers", peers);
  return out;
}

Napi::Value takeEvents(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Activity::Taken taken = activity().take();
  Napi::Array events = Napi::Array::New(env);
  for (const Happened& each : taken.events) {
    Napi::Object event = Napi::Object::New(env);
    event.Set("event", std::string(nameOf(each.event)));
    event.Set("peer", each.peer);
    event.Set("text", each.text);
    events.Set(events.Length(), event);
  }
  Napi::Object out = Napi::Object::New(env);
  out.Set("events", events);
  out.Set("forgotten", static_cast<double>(taken.forgotten));
  return out;
}

Napi::Value hearEvents(const Napi::CallbackInfo& info) {
  Engine::of(info.Env()).hear(info[0]);
  return info.Env().Undefined();
}

Napi::Value setNetworkTimes(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  const auto time = [&](const char* key) { return Milliseconds(numberOf(from, key)); };
  NetworkTimes times;
  times.alive = time("aliveMs");
  times.answer = time("answerMs");
  times.connect = time("connectMs");
  times.starved = time("starvedMs");
  times.stall = time("stallMs");
  times.hostSilence = time("hostSilenceMs");
  times.meshCall = time("meshCallMs");
  times.handshake = time("handshakeMs");
  const Status set = setNetwork(times);
  const Settle settle = set.ok() ? success([](Napi::Env env) { return env.Undefined(); }) : failure(set);
  return settle(info.Env());
}

}  // namespace muster::binding
