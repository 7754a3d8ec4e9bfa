// One trial of the kill test: processes at work, one of them struck at a moment or an offset that the seed says, and what all
// the others owe: an answer in time, with whole bytes or a reason.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "player.h"
#include "support.h"

namespace muster::test {

constexpr Milliseconds kDeadline{3'000};   // of what is struck
constexpr Milliseconds kMargin{1'000};     // how much later than its deadline a process may answer, on a machine with other work
constexpr Milliseconds kOrdinary{10'000};  // for what nothing happens to

struct Strike {
  Player* victim;
  int signal;                                    // SIGKILL or SIGSTOP
  std::optional<std::chrono::microseconds> at{};  // after the work began; nullopt: another process strikes, at an offset
  std::optional<Milliseconds> thawAfter{};        // of a frozen one; nullopt: when all others have answered
};

class Trial {
 public:
  explicit Trial(uint64_t seed) : random_(seed) {}

  uint64_t below(uint64_t bound) { return random_() % bound; }
  const std::string& folder() const { return folder_.path(); }
  std::string plan;      // what is done, in words
  bool inTime = false;   // somebody was still at work when the strike came
  const std::vector<std::string>& complaints() const { return complaints_; }
  void complain(const std::string& what) { complaints_.push_back(what); }

  Player& cast(const std::string& name, const std::function<Player::Role()>& make) {
    players_.push_back(std::make_unique<Player>(name, make));
    return *players_.back();
  }

  // Half of the strikes kill; the others freeze. A freeze that begins at a moment ends after a time that the seed says in half
  // of the cases; every other one when all others have answered.
  Strike strikeOn(Player& victim, bool byOffset) {
    Strike strike{&victim, below(2) == 0 ? SIGKILL : SIGSTOP};
    if (strike.signal == SIGSTOP && !byOffset && below(2) == 0) strike.thawAfter = Milliseconds(1 + below(400));
    plan += std::string(strike.signal == SIGKILL ? ", kill " : ", freeze ") + victim.name();
    if (strike.thawAfter) plan += " for " + std::to_string(strike.thawAfter->count()) + " ms";
    return strike;
  }

  // Tells one player and waits for what it says; empty, with a complaint, when it says nothing in time.
  std::string ask(Player& player, const std::string& command) {
    player.tell(command);
    awaitAll({&player}, Clock::now() + kOrdinary + kMargin);
    if (player.answer()) return *player.answer();
    complain(player.name() + " never answered \"" + command + "\"");
    return "";
  }
  void demand(Player& player, const std::string& command) {
    const std::string said = ask(player, command);
    if (said != "ok" && !said.empty()) complain(player.name() + ", \"" + command + "\": " + said);
  }

  void demandAll(const std::vector<Player*>& players, const std::string& command) {
    for (Player* player : players) player->tell(command);
    awaitAll(players, Clock::now() + kOrdinary + kMargin);
    for (const Player* player : players)
      if (player->answer() != "ok") complain(player->name() + ", \"" + command + "\": " + player->answer().value_or("no answer"));
  }

  // The players were told what to do. Strikes, and waits for everybody who can answer; complains about those who do not
  // within `limit` and kMargin. A process that was frozen owes nothing before it is thawed.
  void perform(const std::vector<Player*>& players, const Strike& strike, Milliseconds limit) {
    const auto began = Clock::now();
    if (strike.at) {
      const auto moment = began + *strike.at;
      if (!awaitAll(players, moment)) inTime = true;
      std::this_thread::sleep_until(moment);
      strike.victim->signal(strike.signal);
      if (strike.thawAfter) {
        awaitAll(players, moment + *strike.thawAfter);
        strike.victim->signal(SIGCONT);
      }
    }
    std::vector<Player*> others = players;
    std::erase(others, strike.victim);
    if (!awaitAll(others, began + limit + kMargin)) complainOfBusy(others);
    // Once may be too early: a process that strikes itself may be about to.
    const auto owed = std::max(began + limit, Clock::now()) + kMargin;
    do {
      if (!strike.at && isStruck(*strike.victim)) inTime = true;
      if (strike.signal == SIGSTOP) strike.victim->signal(SIGCONT);
    } while (!awaitAll({strike.victim}, std::min(owed, Clock::now() + Milliseconds(50))) && Clock::now() < owed);
    complainOfBusy({strike.victim});
  }

 private:
  static bool isBusy(const Player* player) { return player->busySince() && !player->lost(); }

  // True when none of them is busy any more.
  static bool awaitAll(const std::vector<Player*>& players, Clock::time_point until) {
    for (;;) {
      std::vector<Player*> busy;
      std::ranges::copy_if(players, std::back_inserter(busy), isBusy);
      if (busy.empty()) return true;
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(until - Clock::now());
      if (left.count() <= 0) return false;
      std::vector<pollfd> polled;
      for (const Player* player : busy) polled.push_back({player->line(), POLLIN, 0});
      const timespec wait{static_cast<time_t>(left.count() / 1'000'000'000), static_cast<long>(left.count() % 1'000'000'000)};
      ::ppoll(polled.data(), polled.size(), &wait, nullptr);
      for (size_t i = 0; i < busy.size(); i++)
        if (polled[i].revents != 0) busy[i]->look();
    }
  }

  // Dead or stopped, seen without taking the news from anybody.
  static bool isStruck(const Player& player) {
    siginfo_t seen{};
    const auto pid = static_cast<id_t>(player.pid());
    return ::waitid(P_PID, pid, &seen, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0 && seen.si_pid == player.pid();
  }

  void complainOfBusy(const std::vector<Player*>& players) {
    for (const Player* player : players)
      if (isBusy(player)) complain(player->name() + " is stuck past its deadline");
  }

  TemporaryFolder folder_;  // goes last
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Player>> players_;
  std::vector<std::string> complaints_;
};

}  // namespace muster::test
