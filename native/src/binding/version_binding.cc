#include "binding/version_binding.h"

#include "core/pull.h"
#include "core/version_store.h"
#include "core/xxh64.h"

namespace muster::binding {

namespace {

// An open store as JavaScript sees it: {addresses, publish, holds, versions, close}.
class StoreObject {
 public:
  static Napi::Value make(Napi::Env env, std::shared_ptr<VersionStore> store) {
    Napi::Object out = Napi::Object::New(env);
    Napi::Array addresses = Napi::Array::New(env);
    for (const std::string& each : store->addresses()) addresses.Set(addresses.Length(), each);
    out.Set("addresses", addresses);
    const auto method = [&](const char* name, auto body) {
      out.Set(name, Napi::Function::New(env, [store, body](const Napi::CallbackInfo& info) { return body(*store, store, info); }, name));
    };
    method("publish", publish);
    method("holds", [](VersionStore& s, const auto&, const Napi::CallbackInfo& info) -> Napi::Value {
      return Napi::Boolean::New(info.Env(), s.holds(versionOf(info[0].As<Napi::Object>())));
    });
    method("versions", versions);
    method("close", close);
    return out;
  }

 private:
  using Store = std::shared_ptr<VersionStore>;

  static Napi::Value publish(VersionStore&, const Store& store, const Napi::CallbackInfo& info) {
    const auto options = info[0].As<Napi::Object>();
    Engine::Work work{{}, Cancellation::of(options, "cancellation")};
    std::vector<SectionInput> inputs;
    const auto sections = options.Get("sections").As<Napi::Array>();
    for (uint32_t i = 0; i < sections.Length(); i++) {
      const auto section = sections.Get(i).As<Napi::Object>();
      inputs.push_back({textOf(section, "name"), memoryOf(section.Get("bytes"))});
      work.keep.push_back(keepAlive(section.Get("bytes")));
    }
    work.run = [store, id = versionOf(options), inputs, abort = work.abort]() -> Settle {
      const Result<std::vector<Section>> published = store->publish(id, inputs, *abort);
      if (!published.ok()) return failure(published.status());
      return success([done = published.value()](Napi::Env env) -> Napi::Value {
        Napi::Array out = Napi::Array::New(env);
        for (const Section& section : done) {
          Napi::Object each = Napi::Object::New(env);
          each.Set("name", section.name);
          each.Set("bytes", static_cast<double>(section.bytes));
          each.Set("digest", toHex(section.digest));
          out.Set(out.Length(), each);
        }
        return out;
      });
    };
    return Engine::of(info.Env()).start(info.Env(), std::move(work));
  }

  static Napi::Value versions(VersionStore& store, const Store&, const Napi::CallbackInfo& info) {
    Napi::Array out = Napi::Array::New(info.Env());
    for (const VersionId id : store.versions()) {
      Napi::Object each = Napi::Object::New(info.Env());
      each.Set("lineage", static_cast<double>(id.lineage));
      each.Set("version", static_cast<double>(id.version));
      out.Set(out.Length(), each);
    }
    return out;
  }

  static Napi::Value close(VersionStore&, const Store& store, const Napi::CallbackInfo& info) {
    Engine::Work work{[store]() -> Settle {
                        store->close();
                        return success([](Napi::Env env) { return env.Undefined(); });
                      },
                      std::make_shared<Abort>()};
    return Engine::of(info.Env()).start(info.Env(), std::move(work));
  }
};

}  // namespace

Napi::Value openStore(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  StoreOptions options{bytesOf(from, "key"), textOf(from, "job"), textOf(from, "member"), textOf(from, "socketDir"),
                       {}, numberOf(from, "slotBytes"), numberOf(from, "slots")};
  if (!from.Get("tcpHost").IsNull()) options.tcpHost = textOf(from, "tcpHost");
  Engine::Work work{[options]() -> Settle {
                      Result<std::shared_ptr<VersionStore>> store = VersionStore::open(options);
                      if (!store.ok()) return failure(store.status());
                      return success([opened = store.value()](Napi::Env env) { return StoreObject::make(env, opened); });
                    },
                    std::make_shared<Abort>()};
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

Napi::Value pullVersion(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  PullOptions options{bytesOf(from, "key"), textOf(from, "job"), textOf(from, "member"), {}, versionOf(from), {}};
  const auto targets = from.Get("targets").As<Napi::Array>();
  for (uint32_t i = 0; i < targets.Length(); i++) {
    const auto target = targets.Get(i).As<Napi::Object>();
    options.targets.push_back(
        {textOf(target, "name"), digestFromHex(textOf(target, "digest")), memoryOf(target.Get("into"))});
    work.keep.push_back(keepAlive(target.Get("into")));
  }
  const Patience patience{Deadline::in(Milliseconds(numberOf(from, "timeoutMs"))), work.abort.get()};
  work.run = [options, holders = textsOf(from, "holders"), patience]() mutable -> Settle {
    for (const std::string& holder : holders) {
      Result<Address> address = parseAddress(holder);
      if (!address.ok()) return failure(address.status());
      options.holders.push_back(std::move(address.value()));
    }
    const Result<PullResult> pulled = pull(options, patience);
    if (!pulled.ok()) return failure(pulled.status());
    return success([done = pulled.value()](Napi::Env env) -> Napi::Value {
      Napi::Object out = Napi::Object::New(env);
      out.Set("bytes", static_cast<double>(done.bytes));
      out.Set("via", done.via == Via::Memory ? "memory" : "tcp");
      out.Set("from", done.from);
      return out;
    });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

}  // namespace muster::binding
