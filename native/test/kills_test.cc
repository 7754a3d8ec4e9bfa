// Kills and freezes real processes while they publish, receive, pass on and add up. kills_test [trials] [seed]: trial n has the
// seed seed + n, so one that failed is repeated with "1 <its seed>": the same plan; the kernel's schedule is another.
#define MUSTER_TEST_SUITE  // has its own main

#include <cstdio>
#include <cstdlib>
#include <map>

#include "check.h"
#include "kills_reductions.h"
#include "kills_versions.h"

using namespace muster;
using namespace muster::test;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kTrials = 12;  // one round of the scenes: everything is slower
#else
constexpr uint64_t kTrials = 40;
#endif
constexpr uint64_t kSeed = 1;

struct Scene {
  const char* name;
  void (*perform)(Trial&);
  uint64_t share;  // of all trials
};

constexpr Scene kScenes[] = {{"publisher", strikePublisher, 2},
                             {"source", strikeSource, 2},
                             {"chain", strikeChain, 4},
                             {"gradients", strikeGradients, 2},
                             {"all-reduce", strikeAllReduce, 2}};

const Scene& sceneOf(uint64_t seed) {
  uint64_t all = 0;
  for (const Scene& scene : kScenes) all += scene.share;
  uint64_t at = seed % all;
  for (const Scene& scene : kScenes) {
    if (at < scene.share) return scene;
    at -= scene.share;
  }
  return kScenes[0];
}

struct Tally {
  uint64_t trials = 0, inTime = 0, failed = 0;
};

Tally perform(const Scene& scene, uint64_t seed) {
  Trial trial(seed);
  scene.perform(trial);
  for (const std::string& complaint : trial.complaints()) {
    failures()++;
    std::printf("seed %llu (%s): %s\n", static_cast<unsigned long long>(seed), trial.plan.c_str(), complaint.c_str());
  }
  std::fflush(stdout);
  return {1, trial.inTime, !trial.complaints().empty()};
}

}  // namespace

int main(int argc, char** argv) {
#if defined(__SANITIZE_THREAD__)
  (void)argc, (void)argv, (void)kTrials, (void)kSeed, (void)sceneOf, (void)perform;
  std::printf("not run: the thread sanitizer does not follow a fork into threads\n");
#else
  const uint64_t trials = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : kTrials;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : kSeed;
  if (trials == 0) return std::printf("usage: kills_test [trials, at least 1] [seed]\n"), 2;
  std::printf("%llu trials from seed %llu\n", static_cast<unsigned long long>(trials), static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  const auto began = Clock::now();
  std::map<std::string, Tally> tallies;
  for (uint64_t n = 0; n < trials; n++) {
    const Scene& scene = sceneOf(seed + n);
    const Tally one = perform(scene, seed + n);
    Tally& tally = tallies[scene.name];
    tally.trials += one.trials, tally.inTime += one.inTime, tally.failed += one.failed;
  }
  for (const auto& [name, tally] : tallies)
    std::printf("%s: %llu trials, %llu struck while somebody was at work, %llu failed\n", name.c_str(),
                static_cast<unsigned long long>(tally.trials), static_cast<unsigned long long>(tally.inTime),
                static_cast<unsigned long long>(tally.failed));
  std::printf("%.1f s\n", std::chrono::duration<double>(Clock::now() - began).count());
#endif
  return failures() == 0 ? 0 : 1;
}
