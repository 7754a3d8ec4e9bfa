// The smallest test harness that says what failed: TEST("sentence") { CHECK(…); } and one main per file.
#pragma once

#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"

namespace muster::test {

struct Case {
  const char* title;
  void (*body)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
inline std::atomic<int>& failures() {
  static std::atomic<int> count{0};
  return count;
}
struct Register {
  Register(const char* title, void (*body)()) { cases().push_back({title, body}); }
};

inline int runAll() {
  for (const Case& each : cases()) {
    const int before = failures().load();
    each.body();
    std::printf("%s %s\n", failures() == before ? "ok    " : "FAILED", each.title);
  }
  return failures() == 0 && !cases().empty() ? 0 : 1;
}

}  // namespace muster::test

#define MUSTER_JOIN2(a, b) a##b
#define MUSTER_JOIN(a, b) MUSTER_JOIN2(a, b)
#define TEST(title)                                                                               \
  static void MUSTER_JOIN(test_, __LINE__)();                                                     \
  static const muster::test::Register MUSTER_JOIN(register_, __LINE__)(title, MUSTER_JOIN(test_, __LINE__)); \
  static void MUSTER_JOIN(test_, __LINE__)()

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      muster::test::failures()++;                                              \
      std::printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);    \
    }                                                                          \
  } while (false)

// Stops the test when a status or result is not ok, and says why.
#define REQUIRE_OK(value)                                                                          \
  do {                                                                                             \
    if (const muster::Status status_ = muster::test::statusOf(value); !status_.ok()) {                      \
      muster::test::failures()++;                                                                  \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, status_.message.c_str());                     \
      return;                                                                                      \
    }                                                                                              \
  } while (false)

namespace muster::test {

inline Status statusOf(const Status& status) { return status; }
template <class T>
Status statusOf(const Result<T>& result) {
  return result.status();
}

}  // namespace muster::test

#if !defined(MUSTER_TEST_SUITE)
int main() { return muster::test::runAll(); }
#endif
