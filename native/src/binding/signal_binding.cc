#include "binding/signal_binding.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <mutex>
#include <string_view>
#include <thread>

namespace muster::binding {

namespace {

using namespace std::chrono_literals;

// Counted in slices, so that a process that stood still as a whole has lost but one.
constexpr int kSlices = 50;
constexpr auto kSlice = 100ms;
constexpr std::string_view kSaid = "muster: the main loop did not answer a signal within 5 s; ended anyway\n";

std::array<struct sigaction, NSIG> handlers;  // those of libuv, as they were found; written before ours is in place
int wake = -1;                                // its reader watches
std::atomic<int> last{0};                     // the signal that came last
std::atomic<uint32_t> heard{0};               // how many came
std::atomic<uint32_t> answered{0};            // how many of them the main loop has seen
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

extern "C" void onSignal(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  last.store(number);
  heard.fetch_add(1);
  const uint64_t one = 1;
  // A full counter wakes the reader just as well.
  [[maybe_unused]] const ssize_t written = ::write(wake, &one, sizeof one);
  const struct sigaction& next = handlers[static_cast<size_t>(number)];
  if ((next.sa_flags & SA_SIGINFO) != 0) next.sa_sigaction(number, info, context);
  else next.sa_handler(number);
  errno = saved;
}

std::mutex gate;                              // held while the main loop is called, and while it goes away
bool isOver = false;                          // nobody can be called any more

bool isAnswered(uint32_t mine) { return static_cast<int32_t>(answered.load() - mine) >= 0; }

[[noreturn]] void endBy(int number) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kSaid.data(), kSaid.size());
  std::signal(number, SIG_DFL);
  ::kill(::getpid(), number);
  std::this_thread::sleep_for(1s);
  ::_exit(128 + number);
}

// Asks the main loop to note that it has seen so many. False once the process is on its way out: what asks is gone with the environment, whoever holds it.
bool asked(const Napi::ThreadSafeFunction& toLoop, uint32_t mine) {
  const std::lock_guard lock(gate);
  return !isOver && toLoop.NonBlockingCall([mine](Napi::Env, Napi::Function) { answered.store(mine); }) != napi_closing;
}

void watch(const Napi::ThreadSafeFunction& toLoop) {
  for (;;) {
    uint64_t count = 0;
    if (::read(wake, &count, sizeof count) < 0) continue;
    const uint32_t mine = heard.load();
    if (!asked(toLoop, mine)) return;
    for (int slice = 0; slice < kSlices && !isAnswered(mine); slice++) std::this_thread::sleep_for(kSlice);
    if (!isAnswered(mine)) endBy(last.load());
  }
}

bool startWatch(Napi::Env env) {
  const int made = ::eventfd(0, EFD_CLOEXEC);
  if (made < 0) return false;
  wake = made;
  auto toLoop = Napi::ThreadSafeFunction::New(env, Napi::Function::New(env, [](const Napi::CallbackInfo&) {}), "signals", 0, 1);
  toLoop.Unref(env);
  // Hooks run in reverse order: this one before that of the function, which ends it.
  env.AddCleanupHook([] {
    const std::lock_guard lock(gate);
    isOver = true;
  });
  // No signal is handled on the thread that is to see that nobody handles it.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([toLoop] { watch(toLoop); }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return true;
}

}  // namespace

Napi::Value guardSignal(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const int number = info[0].As<Napi::Number>().Int32Value();
  struct sigaction found;
  if (number <= 0 || number >= NSIG || ::sigaction(number, nullptr, &found) != 0) return env.Undefined();
  const bool isRich = (found.sa_flags & SA_SIGINFO) != 0;
  if (isRich ? found.sa_sigaction == onSignal : found.sa_handler == SIG_DFL || found.sa_handler == SIG_IGN) return env.Undefined();
  if (wake < 0 && !startWatch(env)) return env.Undefined();
  handlers[static_cast<size_t>(number)] = found;
  struct sigaction ours = found;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = onSignal;
  ::sigaction(number, &ours, nullptr);
  return env.Undefined();
}

}  // namespace muster::binding
