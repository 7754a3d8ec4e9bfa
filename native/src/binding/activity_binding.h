// What the data plane has done, and the times of the network, for JavaScript.
#pragma once

#include <napi.h>

namespace muster::binding {

// {opened, accepted, events: {kind: count}, peers: [{peer, sent, received}]}
Napi::Value activityNow(const Napi::CallbackInfo& info);
// {events: [{event, peer, text}], forgotten}; see Activity::take
Napi::Value takeEvents(const Napi::CallbackInfo& info);
// The function to call when there are events, or null
Napi::Value hearEvents(const Napi::CallbackInfo& info);
// {aliveMs, answerMs, …}: {ok: true} or {ok: false, code, message}
Napi::Value setNetworkTimes(const Napi::CallbackInfo& info);

}  // namespace muster::binding
