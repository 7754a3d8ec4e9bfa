// A CUDA driver and an NCCL of our own, for hosts without a GPU: device memory is host memory, streams are lists, ranks are threads of
// one process. It checks how it is called as the real ones only crash on: see `violation`. Declared from the documents and not from
// src/gpu, so that a mistake there is seen here.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace fake {

struct Work {
  std::function<void()> begin;       // when it is its turn in the stream; may be empty
  std::function<bool()> isFinished;
  bool begun = false;
};

struct Stream {
  std::list<Work> work;
  bool blocked = false;  // a communicator has a call in progress: no CUDA work may be queued
};

struct State {
  std::recursive_mutex mutex;
  std::map<std::string, long> knobs;
  std::string violations;
};

State& state();
using Lock = std::lock_guard<std::recursive_mutex>;

// A knob's value; tests set them by fakeGpuSet, other programs by FAKE_GPU="name=value,name=value".
long knob(const char* name, long otherwise);
// Blocks the calling thread, outside of any lock, as long as the knob is set.
void blockWhile(const char* name);
// Notes that something was called as it must not be.
void violation(const std::string& what);
bool hasContext();

// Lets a stream get as far as it can. Call with the lock held.
void pump(Stream& stream);

// NCCL's part of fakeGpuLeaks.
std::string ncclLeaks();

}  // namespace fake
