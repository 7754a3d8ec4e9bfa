// A process of its own that a test leads: it does what it is told, one command at a time, and is killed or frozen while it does.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "core/patience.h"

namespace muster::test {

class Player {
 public:
  // Answers a command; lives in the process of the player.
  using Role = std::function<std::string(const std::string& command)>;

  // `make` runs in the new process. The caller must have no other threads.
  Player(std::string name, const std::function<Role()>& make) : name_(std::move(name)) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
    const pid_t leader = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != leader) ::_exit(1);
      ::close(ends[0]);
      play(ends[1], make());
    }
    ::close(ends[1]);
    line_ = UniqueFd(ends[0]);
  }
  ~Player() { end(); }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }
  int line() const { return line_.get(); }
  // Since when it has been about a command that it has not answered yet.
  std::optional<Clock::time_point> busySince() const { return busySince_; }

  void tell(const std::string& command) {
    busySince_ = Clock::now();
    answer_.reset();
    if (::send(line_.get(), command.data(), command.size(), MSG_NOSIGNAL) < 0) lost_ = true;
  }
  // Takes the answer when it is there; false when the line is dead.
  bool look() {
    char text[4096];
    const ssize_t got = ::recv(line_.get(), text, sizeof text, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    busySince_.reset();
    if (got <= 0) lost_ = true;
    else answer_ = std::string(text, static_cast<size_t>(got));
    return got > 0;
  }
  const std::optional<std::string>& answer() const { return answer_; }
  // Its process is gone, or it cannot be talked to.
  bool lost() const { return lost_; }

  void signal(int sent) const { ::kill(pid_, sent); }
  // Kills the process, whatever it does, and waits until the kernel has taken everything from it.
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  [[noreturn]] static void play(int line, const Role& role) {
    char text[4096];
    for (;;) {
      const ssize_t got = ::recv(line, text, sizeof text, 0);
      if (got <= 0) ::_exit(0);
      const std::string said = role(std::string(text, static_cast<size_t>(got)));
      if (::send(line, said.data(), said.size(), MSG_NOSIGNAL) < 0) ::_exit(0);
    }
  }

  std::string name_;
  pid_t pid_ = -1;
  UniqueFd line_;
  std::optional<Clock::time_point> busySince_;
  std::optional<std::string> answer_;
  bool lost_ = false;
};

}  // namespace muster::test
