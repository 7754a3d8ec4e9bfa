#include "binding/values.h"

#include <algorithm>
#include <cstdlib>

namespace muster::binding {

Settle failure(Status status) {
  return [status = std::move(status)](Napi::Env env) -> Napi::Value {
    Napi::Object out = Napi::Object::New(env);
    Napi::Array ranks = Napi::Array::New(env, status.ranks.size());
    for (uint32_t i = 0; i < status.ranks.size(); i++) ranks.Set(i, status.ranks[i]);
    out.Set("ok", false);
    out.Set("code", nameOf(status.code));
    out.Set("message", status.message);
    out.Set("ranks", ranks);
    return out;
  };
}

Settle success(std::function<Napi::Value(Napi::Env)> makeValue) {
  return [makeValue = std::move(makeValue)](Napi::Env env) -> Napi::Value {
    Napi::Object out = Napi::Object::New(env);
    out.Set("ok", true);
    out.Set("value", makeValue(env));
    return out;
  };
}

std::string textOf(const Napi::Object& from, const char* key) { return from.Get(key).As<Napi::String>().Utf8Value(); }

uint64_t numberOf(const Napi::Object& from, const char* key) {
  return static_cast<uint64_t>(from.Get(key).As<Napi::Number>().Int64Value());
}

std::span<uint8_t> memoryOf(const Napi::Value& array) {
  auto view = array.As<Napi::Uint8Array>();
  return {view.Data(), view.ByteLength()};
}

std::vector<std::span<uint8_t>> memoriesOf(const Napi::Array& list) {
  std::vector<std::span<uint8_t>> memories(list.Length());
  // Node-API itself: its C++ wrapper asks five times for what is needed once.
  for (uint32_t i = 0; i < memories.size(); i++) {
    napi_value array = nullptr;
    void* data = nullptr;
    size_t length = 0;
    if (napi_get_element(list.Env(), list, i, &array) != napi_ok ||
        napi_get_typedarray_info(list.Env(), array, nullptr, &length, &data, nullptr, nullptr) != napi_ok)
      throw Napi::Error::New(list.Env(), "not a list of Uint8Array");
    memories[i] = {static_cast<uint8_t*>(data), length};
  }
  return memories;
}

std::vector<std::string> namesOf(const Napi::Object& from, const char* key, size_t count) {
  const std::string joined = textOf(from, key);
  std::vector<std::string> names;
  size_t begin = 0;
  for (size_t i = 0; i < count; i++) {
    const size_t end = std::min(joined.find('\0', begin), joined.size());
    names.push_back(joined.substr(begin, end - begin));
    begin = std::min(end + 1, joined.size());
  }
  return names;
}

Bytes bytesOf(const Napi::Object& from, const char* key) {
  const std::span<uint8_t> memory = memoryOf(from.Get(key));
  return {memory.begin(), memory.end()};
}

std::vector<std::string> textsOf(const Napi::Object& from, const char* key) {
  const auto array = from.Get(key).As<Napi::Array>();
  std::vector<std::string> out;
  for (uint32_t i = 0; i < array.Length(); i++) out.push_back(array.Get(i).As<Napi::String>().Utf8Value());
  return out;
}

std::vector<uint32_t> numbersOf(const Napi::Object& from, const char* key) {
  const auto array = from.Get(key).As<Napi::Array>();
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < array.Length(); i++) out.push_back(array.Get(i).As<Napi::Number>().Uint32Value());
  return out;
}

VersionId versionOf(const Napi::Object& from) { return {numberOf(from, "lineage"), numberOf(from, "version")}; }

Napi::Reference<Napi::Value> keepAlive(const Napi::Value& value) {
  return Napi::Reference<Napi::Value>::New(value.As<Napi::Object>(), 1);
}

uint64_t digestFromHex(const std::string& hex) { return std::strtoull(hex.c_str(), nullptr, 16); }

Napi::Function Cancellation::define(Napi::Env env) {
  return DefineClass(env, "Cancellation", {InstanceMethod("cancel", &Cancellation::cancel), InstanceMethod("dispose", &Cancellation::dispose)});
}

std::shared_ptr<Abort> Cancellation::of(const Napi::Object& from, const char* key) {
  return Unwrap(from.Get(key).As<Napi::Object>())->abort_;
}

}  // namespace muster::binding
