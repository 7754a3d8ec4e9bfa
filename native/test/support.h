// A short-lived directory for sockets, and options that every test shares.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "core/bytes.h"
#include "core/patience.h"

namespace muster::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char path[] = "/tmp/muster-test-XXXXXX";
    if (::mkdtemp(path) != nullptr) path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;  // a folder left behind fails no test
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline Bytes keyOf(std::string_view text) { return {text.begin(), text.end()}; }

inline Patience patienceOf(const Abort& abort, int ms = 10'000) { return {Deadline::in(Milliseconds(ms)), &abort}; }

}  // namespace muster::test
