#include "binding/version_binding.h"

#include <atomic>
#include <utility>

#include "binding/mapped_version.h"
#include "core/version_store.h"
#include "core/xxh64.h"

namespace muster::binding {

namespace {

// An open store as JavaScript sees it: {addresses, publish, keep, holds, versions, close}; `store` is the handle for pulls into it.
class StoreObject {
 public:
  static Napi::Value make(Napi::Env env, std::shared_ptr<VersionStore> store) {
    Napi::Object out = Napi::Object::New(env);
    Napi::Array addresses = Napi::Array::New(env);
    for (const std::string& each : store->addresses()) addresses.Set(addresses.Length(), each);
    out.Set("addresses", addresses);
    const auto forget = [](Napi::Env, Store* owner) { delete owner; };
    out.Set("store", Napi::External<Store>::New(env, new Store(store), forget));
    const auto method = [&](const char* name, auto body) {
      out.Set(name, Napi::Function::New(env, [store, body](const Napi::CallbackInfo& info) { return body(*store, store, info); }, name));
    };
    method("publish", publish);
    method("keep", keep);
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
    const auto list = options.Get("sections").As<Napi::Array>();  // made for this call; it holds all views
    work.keep.push_back(keepAlive(list));
    const std::vector<std::span<uint8_t>> pieces = memoriesOf(list);
    const auto counts = options.Get("pieces").As<Napi::Uint32Array>();
    std::vector<std::string> names = namesOf(options, "names", counts.ElementLength());
    std::vector<SectionInput> inputs;
    auto piece = pieces.begin();
    for (size_t i = 0; i < names.size(); i++) {
      inputs.emplace_back(std::move(names[i]), std::vector<ByteView>(piece, piece + counts[i]));
      piece += counts[i];
    }
    return start(info.Env(), std::move(work), {store, versionOf(options), std::move(inputs), nullptr});
  }

  // {mapped, names, lineage, version, cancellation}
  static Napi::Value keep(VersionStore&, const Store& store, const Napi::CallbackInfo& info) {
    const auto options = info[0].As<Napi::Object>();
    const Mapped& mapped = mappedBehind(options.Get("mapped"));
    std::vector<std::string> names = namesOf(options, "names", mapped->pulled.sections.size());
    std::vector<SectionInput> inputs;
    for (size_t i = 0; i < names.size(); i++) inputs.emplace_back(std::move(names[i]), mapped->pulled.sections[i]);
    Engine::Work work{{}, Cancellation::of(options, "cancellation")};
    return start(info.Env(), std::move(work), {store, versionOf(options), std::move(inputs), mapped->pulled.hold});
  }

  struct Publication {
    Store store;
    VersionId id;
    std::vector<SectionInput> inputs;
    std::shared_ptr<const void> hold;  // of memory that is no buffer of JavaScript
  };

  static Napi::Value start(Napi::Env env, Engine::Work work, Publication publication) {
    work.run = [publication = std::move(publication), abort = work.abort]() -> Settle {
      const auto& [store, id, inputs, hold] = publication;
      const Result<std::vector<Section>> published = store->publish(id, inputs, *abort);
      if (!published.ok()) return failure(published.status());
      std::string digests;
      for (const Section& section : published.value()) digests += toHex(section.digest);
      return success([digests](Napi::Env each) { return Napi::String::New(each, digests); });
    };
    return Engine::of(env).start(env, std::move(work));
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

namespace {

// {mode: "never" | "auto" | "always", anchorEvery, keep}
DeltaOptions deltaOf(const Napi::Object& from) {
  const std::string mode = textOf(from, "mode");
  return {mode == "never" ? DeltaMode::Never : mode == "always" ? DeltaMode::Always : DeltaMode::Auto,
          static_cast<uint32_t>(numberOf(from, "anchorEvery")), static_cast<uint32_t>(numberOf(from, "keep"))};
}

}  // namespace

Napi::Value openStore(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  StoreOptions options{bytesOf(from, "key"), textOf(from, "job"), textOf(from, "member"), textOf(from, "socketDir"),
                       {}, numberOf(from, "slotBytes"), numberOf(from, "slots"),
                       deltaOf(from.Get("delta").As<Napi::Object>())};
  if (!from.Get("tcpHost").IsNull()) options.tcpHost = textOf(from, "tcpHost");
  Engine::Work work{[options]() -> Settle {
                      Result<std::shared_ptr<VersionStore>> store = VersionStore::open(options);
                      if (!store.ok()) return failure(store.status());
                      return success([opened = store.value()](Napi::Env env) { return StoreObject::make(env, opened); });
                    },
                    std::make_shared<Abort>()};
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

namespace {

// Where JavaScript looks how far a pull is: two u64, verified bytes and all of them.
std::function<void(uint64_t, uint64_t)> progressIn(std::span<uint8_t> memory) {
  return [words = reinterpret_cast<uint64_t*>(memory.data())](uint64_t verified, uint64_t total) {
    std::atomic_ref(words[1]).store(total, std::memory_order_relaxed);
    std::atomic_ref(words[0]).store(verified, std::memory_order_release);
  };
}

// {names, sizes, digests}: see packages/collectives/src/section-table.ts
std::vector<WantedSection> wantedOf(const Napi::Object& table) {
  constexpr size_t kDigits = 16;
  const auto sizes = table.Get("sizes").As<Napi::Float64Array>();
  const std::string digests = textOf(table, "digests");
  std::vector<std::string> names = namesOf(table, "names", sizes.ElementLength());
  std::vector<WantedSection> wanted;
  for (size_t i = 0; i < names.size(); i++)
    wanted.push_back({std::move(names[i]), static_cast<uint64_t>(sizes[i]), digestFromHex(digests.substr(i * kDigits, kDigits))});
  return wanted;
}

struct PullCall {
  PullOptions options;
  std::vector<std::string> holders;
  Patience patience;
};

// What pullVersion and mapVersion have in common.
PullCall pullCallOf(const Napi::Object& from, Engine::Work& work) {
  PullOptions options{bytesOf(from, "key"), textOf(from, "job"), textOf(from, "member"), {}, versionOf(from), {}, nullptr};
  if (!from.Get("keepIn").IsNull())
    options.keepIn = *from.Get("keepIn").As<Napi::External<std::shared_ptr<VersionStore>>>().Data();
  options.wanted = wantedOf(from.Get("wanted").As<Napi::Object>());
  const Napi::Value progress = from.Get("progress");
  options.onProgress = progressIn(memoryOf(progress));
  work.keep.push_back(keepAlive(progress));
  return {std::move(options), textsOf(from, "holders"),
          {Deadline::in(Milliseconds(numberOf(from, "timeoutMs"))), work.abort.get()}};
}

Result<Pulled> run(PullCall& call) {
  for (const std::string& holder : call.holders) {
    Result<Address> address = parseAddress(holder);
    if (!address.ok()) return address.status();
    call.options.holders.push_back(std::move(address.value()));
  }
  return pull(call.options, call.patience);
}

Napi::Object describe(Napi::Env env, const Pulled& pulled) {
  Napi::Object out = Napi::Object::New(env);
  out.Set("bytes", static_cast<double>(pulled.bytes));
  out.Set("via", pulled.via == Via::Memory ? "memory" : "tcp");
  out.Set("from", pulled.from);
  out.Set("wireBytes", static_cast<double>(pulled.wireBytes));
  if (!pulled.base) {
    out.Set("base", env.Null());
  } else {
    Napi::Object base = Napi::Object::New(env);
    base.Set("lineage", static_cast<double>(pulled.base->lineage));
    base.Set("version", static_cast<double>(pulled.base->version));
    out.Set("base", base);
  }
  return out;
}

// A mapped version as JavaScript sees it: {bytes, via, from, mapped, copyTo, release}; `mapped` is the handle for stores that keep it. It gives no
// views: V8 takes what they span for memory of its own, and collects all garbage at once on the thread of JavaScript.
class MappedObject {
 public:
  static Napi::Value make(Napi::Env env, Pulled pulled) {
    Napi::Object out = describe(env, pulled);
    const auto state = std::make_shared<MappedState>(std::move(pulled));
    const auto forget = [](Napi::Env, Mapped* owner) { delete owner; };
    out.Set("mapped", Napi::External<Mapped>::New(env, new Mapped(state), forget));
    out.Set("copyTo", Napi::Function::New(env, [state](const Napi::CallbackInfo& info) { return copyTo(state->pulled, info); }));
    out.Set("release", Napi::Function::New(env, [state](const Napi::CallbackInfo& info) {
      state->pulled.sections.clear();
      Engine::of(info.Env()).beside(info.Env(), [hold = std::exchange(state->pulled.hold, nullptr)] {});
      return info.Env().Undefined();
    }));
    return out;
  }

 private:
  // {section, from, into, timeoutMs, cancellation}: the number of a section, and memory for its bytes from there on
  static Napi::Value copyTo(const Pulled& pulled, const Napi::CallbackInfo& info) {
    const auto options = info[0].As<Napi::Object>();
    Engine::Work work{{}, Cancellation::of(options, "cancellation")};
    const Napi::Value into = options.Get("into");
    work.keep.push_back(keepAlive(into));
    const std::span<uint8_t> target = memoryOf(into);
    const ByteView from = pulled.sections.at(numberOf(options, "section")).subspan(numberOf(options, "from"), target.size());
    work.run = [from, target, hold = pulled.hold,
                patience = Patience{Deadline::in(Milliseconds(numberOf(options, "timeoutMs"))), work.abort.get()}]() -> Settle {
      const Status copied = copyPieces(std::span(&from, 1), std::span(&target, 1), patience);
      if (!copied.ok()) return failure(copied);
      return success([](Napi::Env env) { return env.Undefined(); });
    };
    return Engine::of(info.Env()).start(info.Env(), std::move(work));
  }
};

}  // namespace

Napi::Value pullVersion(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  const auto targets = from.Get("into").As<Napi::Array>();  // made for this call; it holds all views
  work.keep.push_back(keepAlive(targets));
  PullCall call = pullCallOf(from, work);
  call.options.into = memoriesOf(targets);
  work.run = [call = std::move(call)]() mutable -> Settle {
    const Result<Pulled> pulled = run(call);
    if (!pulled.ok()) return failure(pulled.status());
    Pulled report = pulled.value();
    report.sections.clear();
    report.hold.reset();
    return success([report](Napi::Env env) { return describe(env, report); });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

Napi::Value mapVersion(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{{}, Cancellation::of(from, "cancellation")};
  work.run = [call = pullCallOf(from, work)]() mutable -> Settle {
    const Result<Pulled> pulled = run(call);
    if (!pulled.ok()) return failure(pulled.status());
    return success([done = pulled.value()](Napi::Env env) { return MappedObject::make(env, done); });
  };
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

}  // namespace muster::binding
