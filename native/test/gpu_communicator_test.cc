// NCCL communicators of threads over the fake: what they compute, and that no failure makes them call NCCL wrongly. Each test ends
// with the fake's verdict: nothing called out of order or from a second thread, nothing left over.
#include <array>
#include <functional>
#include <thread>

#include "gpu/communicator.h"
#include "gpu_support.h"

using namespace muster;
using namespace muster::test;

namespace {

std::shared_ptr<const NcclLibrary> ncclAt(const char* path) {
  std::vector<LibraryAttempt> failed;
  const auto library = NcclLibrary::load({path}, failed);
  CHECK(library.ok());
  return library.value();
}

// One rank of a test, on a thread of its own.
struct Rank {
  std::shared_ptr<const NcclLibrary> library;
  std::shared_ptr<GpuDevice> gpu;
  CommunicatorOptions options;

  Result<std::shared_ptr<Communicator>> open(int ms = 10'000) const {
    const Abort never;
    return Communicator::open(library, gpu, options, patienceOf(never, ms));
  }
};

void onRanks(uint32_t ranks, const std::function<void(Rank)>& body, bool keepForShrink = false, const char* path = MUSTER_FAKE_GPU) {
  const auto library = ncclAt(path);
  const auto id = Communicator::newId(*library);
  REQUIRE_OK(id);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; rank++)
    threads.emplace_back([=] { body({library, FakeGpu::open(), {id.value(), ranks, rank, keepForShrink}}); });
  for (std::thread& each : threads) each.join();
}

CommunicatorCall callOf(Collective collective, const Floats& from, const Floats& to, size_t count, uint32_t peer = 0) {
  return {collective, from.at(), to.at(), count, nccl::DataType::Float32, nccl::Reduction::Sum, peer, {from.memory(), to.memory()}};
}
CommunicatorCall sumOf(const Floats& from, const Floats& to) { return callOf(Collective::AllReduce, from, to, 2); }

}  // namespace

TEST("all collectives, alone and in a group, on three ranks") {
  const FakeGpu fake;
  onRanks(3, [](const Rank& rank) {
    const Abort never;
    const auto comm = rank.open();
    REQUIRE_OK(comm);
    const auto r = static_cast<float>(rank.options.rank);
    const uint32_t next = (rank.options.rank + 1) % 3, before = (rank.options.rank + 2) % 3;
    const Floats own(rank.gpu, {r, r + 1, r + 2}), two(rank.gpu, {0, 0}), one(rank.gpu, {0}), three(rank.gpu, {0, 0, 0});
    const auto run = [&](std::vector<CommunicatorCall> calls) { return comm.value()->run(std::move(calls), patienceOf(never)); };
    REQUIRE_OK(run({sumOf(own, two)}));
    CHECK((two.read() == std::vector<float>{3, 6}));
    REQUIRE_OK(run({callOf(Collective::Broadcast, own, three, 3, 2)}));
    CHECK((three.read() == std::vector<float>{2, 3, 4}));
    REQUIRE_OK(run({callOf(Collective::ReduceScatter, own, one, 1)}));
    CHECK((one.read() == std::vector<float>{3 + 3 * r}));
    REQUIRE_OK(run({callOf(Collective::AllGather, own, three, 1)}));
    CHECK((three.read() == std::vector<float>{0, 1, 2}));
    // Each sends to the next and receives from the one before: without the group, all would wait for each other.
    REQUIRE_OK(run({callOf(Collective::Send, own, own, 1, next), callOf(Collective::Receive, one, one, 1, before)}));
    CHECK((one.read() == std::vector<float>{static_cast<float>(before)}));
    REQUIRE_OK(comm.value()->close(patienceOf(never)));
    CHECK(run({sumOf(own, two)}).code == Code::Closed);
    CHECK(comm.value()->close(patienceOf(never)).ok());
  });
}

TEST("operations that cannot be meant are refused, and leave the communicator as it is") {
  const FakeGpu fake;
  onRanks(1, [](const Rank& rank) {
    const Abort never;
    const auto comm = rank.open();
    REQUIRE_OK(comm);
    const Floats own(rank.gpu, {1, 2});
    CHECK(comm.value()->run({}, patienceOf(never)).code == Code::InvalidArgument);
    CHECK(comm.value()->run({callOf(Collective::Send, own, own, 1, 1)}, patienceOf(never)).message == "rank 1 of 1");
    CHECK(comm.value()->shrink({0}, patienceOf(never)).status().code == Code::InvalidArgument);
    CHECK(comm.value()->run({sumOf(own, own)}, patienceOf(never)).ok());
  });
  std::vector<LibraryAttempt> failed;
  const Abort never;
  CHECK(Communicator::open(ncclAt(MUSTER_FAKE_GPU), FakeGpu::open(), {{}, 2, 2}, patienceOf(never)).status().code == Code::InvalidArgument);
}

TEST("a rank that does not come costs the others their deadline, and nothing is left over") {
  const FakeGpu fake;
  onRanks(3, [](const Rank& rank) {
    if (rank.options.rank == 1) return;
    const auto comm = rank.open(50);
    CHECK(comm.status().code == Code::Timeout);
    CHECK(comm.status().message.find("ncclCommInitRankConfig") != std::string::npos);
  });
}

TEST("a rank that stays away from a collective costs the others their deadline; they go on without it with a fresh id") {
  const FakeGpu fake;
  const auto library = ncclAt(MUSTER_FAKE_GPU);
  const auto fresh = Communicator::newId(*library);
  REQUIRE_OK(fresh);
  onRanks(3, [&](const Rank& rank) {
    const Abort never;
    const auto comm = rank.open();
    REQUIRE_OK(comm);
    if (rank.options.rank == 1) return;  // as if it had died: it goes without a word
    const Floats own(rank.gpu, {1, 2}), sum(rank.gpu, {0, 0});
    CHECK(comm.value()->run({sumOf(own, sum)}, patienceOf(never, 100)).code == Code::Timeout);
    CHECK(comm.value()->run({sumOf(own, sum)}, patienceOf(never)).code == Code::Closed);
    CHECK((own.read() == std::vector<float>{1, 2}));  // the survivors' inputs are as they were
    const Rank survivor{rank.library, rank.gpu, {fresh.value(), 2, rank.options.rank / 2}};
    const auto next = survivor.open();
    REQUIRE_OK(next);
    REQUIRE_OK(next.value()->run({sumOf(own, sum)}, patienceOf(never)));
    CHECK((sum.read() == std::vector<float>{2, 4}));
    CHECK(next.value()->close(patienceOf(never)).ok());
  });
}

TEST("survivors shrink the communicator that a lost rank has stopped") {
  const FakeGpu fake;
  onRanks(
      3,
      [](const Rank& rank) {
        const Abort never;
        const auto comm = rank.open();
        REQUIRE_OK(comm);
        if (rank.options.rank == 0) return;
        const Floats own(rank.gpu, {1, 2}), sum(rank.gpu, {0, 0});
        CHECK(comm.value()->run({sumOf(own, sum)}, patienceOf(never, 100)).code == Code::Timeout);
        const auto next = comm.value()->shrink({0}, patienceOf(never));
        REQUIRE_OK(next);
        CHECK(next.value()->ranks() == 2 && next.value()->rank() == rank.options.rank - 1);
        REQUIRE_OK(next.value()->run({sumOf(own, sum)}, patienceOf(never)));
        CHECK((sum.read() == std::vector<float>{2, 4}));
        CHECK(comm.value()->run({sumOf(own, sum)}, patienceOf(never)).code == Code::Closed);
        CHECK(next.value()->close(patienceOf(never)).ok());
      },
      true);
}

TEST("a shrink is over when its child is there, whether it says success or in progress before") {
  const FakeGpu fake;
  for (const nccl::Result says : {nccl::kSuccess, nccl::kInProgress}) {
    fake.set("shrinkSays", says);
    fake.set("polls", 5);
    onRanks(2, [](const Rank& rank) {
      const Abort never;
      const auto comm = rank.open();
      REQUIRE_OK(comm);
      if (rank.options.rank == 1) return;
      const auto next = comm.value()->shrink({1}, patienceOf(never));
      REQUIRE_OK(next);
      CHECK(next.value()->close(patienceOf(never)).ok());
    });
  }
}

TEST("a healthy communicator shrinks when a rank leaves") {
  const FakeGpu fake;
  onRanks(2, [](const Rank& rank) {
    const Abort never;
    const auto comm = rank.open();
    REQUIRE_OK(comm);
    if (rank.options.rank == 1) return;
    const auto next = comm.value()->shrink({1}, patienceOf(never));
    REQUIRE_OK(next);
    CHECK(next.value()->ranks() == 1);
    CHECK(next.value()->close(patienceOf(never)).ok());
  });
}

TEST("a shrink that fails, hangs or does not exist is an error in time, and nothing is left over") {
  const FakeGpu fake;
  const auto attempt = [](const Rank& rank) {
    const Abort never;
    const auto comm = rank.open();
    REQUIRE_OK(comm);
    if (rank.options.rank == 2) return;
    CHECK(!comm.value()->shrink({2}, patienceOf(never, 100)).ok());
  };
  fake.set("shrinkResult", nccl::kInternalError);
  onRanks(3, attempt);
  fake.set("shrinkResult", 0);
  onRanks(3, [&](const Rank& rank) {
    if (rank.options.rank == 1) return void(rank.open());  // comes, and does not shrink: the child waits for it
    attempt(rank);
  });
  fake.set("shrinkBlocks", 1);
  onRanks(3, attempt);
  fake.set("shrinkBlocks", 0);
  {
    const Abort never;
    const auto old = ncclAt(MUSTER_FAKE_GPU_OLD);
    CHECK(!old->canShrink());
  }
}

TEST("an abort from another thread ends a blocked collective with its reason") {
  const FakeGpu fake;
  fake.set("collectivesHang", 1);
  onRanks(2, [](const Rank& rank) {
    const Abort never;
    const auto comm = rank.open();
    REQUIRE_OK(comm);
    const Floats own(rank.gpu, {1, 2});
    std::thread other([&] { comm.value()->abort("the epoch is over"); });
    const Status ended = comm.value()->run({sumOf(own, own)}, patienceOf(never));
    other.join();
    CHECK(ended.code == Code::Aborted || ended.code == Code::Closed);  // the abort may come before the collective
    CHECK(ended.message == "the epoch is over");
  });
}

TEST("a collective begins when what is queued on the caller's stream is done") {
  const FakeGpu fake;
  onRanks(1, [&](const Rank& rank) {
    const Abort never;
    const auto comm = rank.open();
    REQUIRE_OK(comm);
    const Floats own(rank.gpu, {0, 0}), sum(rank.gpu, {0, 0});
    const std::array<float, 2> values{1, 2};
    const cuda::Stream stream = fake.heldStream(*rank.gpu);
    // What the caller computes: it is in the stream behind what holds it up.
    CHECK(rank.gpu->driver().call().memcpyHtoDAsync(own.at(), values.data(), sizeof values, stream) == cuda::kSuccess);
    const long before = fake.queuedOn(stream);
    std::thread other([&] {
      const Patience soon = patienceOf(never, 5'000);
      while (fake.queuedOn(stream) == before && soon.check().ok()) std::this_thread::yield();
      CHECK(fake.queuedOn(stream) > before);
      fake.set("streamHeld", 0);
    });
    REQUIRE_OK(comm.value()->run({sumOf(own, sum)}, patienceOf(never), stream));
    other.join();
    CHECK((sum.read() == std::vector<float>{1, 2}));
    CHECK(comm.value()->close(patienceOf(never)).ok());
    CHECK(rank.gpu->driver().call().streamDestroy(stream) == cuda::kSuccess);
  });
}

TEST("a stream of the caller that does not end costs the deadline, and no abort waits for it") {
  const FakeGpu fake;
  onRanks(1, [&](const Rank& rank) {
    const Abort never;
    const auto comm = rank.open();
    REQUIRE_OK(comm);
    const Floats own(rank.gpu, {1, 2});
    const cuda::Stream stream = fake.heldStream(*rank.gpu);
    const Status waited = comm.value()->run({sumOf(own, own)}, patienceOf(never, 20), stream);
    CHECK(waited.code == Code::Timeout);
    CHECK(waited.message.find("the caller's stream has not come so far") != std::string::npos);
    CHECK(comm.value()->run({sumOf(own, own)}, patienceOf(never)).code == Code::Closed);
    fake.set("streamHeld", 0);
    const std::array<float, 2> values{3, 4};  // behind all that is in the stream
    const ByteView bytes{reinterpret_cast<const uint8_t*>(values.data()), sizeof values};
    REQUIRE_OK(rank.gpu->copyIn(own.at(), bytes, patienceOf(never), stream));
    CHECK(rank.gpu->driver().call().streamDestroy(stream) == cuda::kSuccess);
  });
}

TEST("the caller's own signal ends a blocked collective") {
  const FakeGpu fake;
  fake.set("collectivesHang", 1);
  onRanks(1, [](const Rank& rank) {
    Abort abort;
    const auto comm = rank.open();
    REQUIRE_OK(comm);
    const Floats own(rank.gpu, {1, 2});
    std::thread other([&] { abort.request(); });
    CHECK(comm.value()->run({sumOf(own, own)}, patienceOf(abort)).code == Code::Aborted);
    other.join();
  });
}

TEST("what NCCL reports while the device works becomes an error of its kind") {
  for (const auto& [result, code] : {std::pair{nccl::kRemoteError, Code::PeerLost}, std::pair{nccl::kSystemError, Code::PeerLost},
                                     std::pair{nccl::kInternalError, Code::Io}, std::pair{nccl::kTimeout, Code::Timeout}}) {
    const FakeGpu fake;
    onRanks(1, [&, expected = code, given = result](const Rank& rank) {
      const Abort never;
      const auto comm = rank.open();
      REQUIRE_OK(comm);
      const Floats own(rank.gpu, {1, 2});
      fake.set("collectivesHang", 1);
      fake.set("asyncError", given);
      const Status failed = comm.value()->run({sumOf(own, own)}, patienceOf(never));
      CHECK(failed.code == expected);
      CHECK(failed.message.find("the last error of the fake") != std::string::npos);
    });
  }
}

TEST("a launch that NCCL refuses spends the communicator, and closes the group") {
  const FakeGpu fake;
  onRanks(1, [&](const Rank& rank) {
    const Abort never;
    const auto comm = rank.open();
    REQUIRE_OK(comm);
    const Floats own(rank.gpu, {1, 2});
    fake.set("launchResult", nccl::kInvalidArgument);
    CHECK(comm.value()->run({sumOf(own, own)}, patienceOf(never)).code == Code::InvalidArgument);
    fake.set("launchResult", 0);
    CHECK(comm.value()->run({sumOf(own, own)}, patienceOf(never)).code == Code::Closed);
  });
}

TEST("a call that never comes back costs the deadline and a second, and its thread cleans up when it does come back") {
  const FakeGpu fake;
  onRanks(1, [&](const Rank& rank) {
    fake.set("initBlocks", 1);
    const auto comm = rank.open(20);
    CHECK(comm.status().code == Code::Timeout);
    CHECK(comm.status().message.find("does not come back") != std::string::npos);
    fake.set("initBlocks", 0);
  });
  onRanks(1, [&](const Rank& rank) {
    const Abort never;
    const auto comm = rank.open();
    REQUIRE_OK(comm);
    const Floats own(rank.gpu, {1, 2});
    fake.set("collectivesHang", 1);
    fake.set("abortBlocks", 1);
    const auto begun = Clock::now();
    CHECK(comm.value()->run({sumOf(own, own)}, patienceOf(never, 20)).code == Code::Timeout);
    CHECK(Clock::now() - begun < Milliseconds(5'000));
    CHECK(comm.value()->run({sumOf(own, own)}, patienceOf(never)).code == Code::Closed);
    fake.set("abortBlocks", 0);
  });
}

TEST("a hundred epochs leave nothing over") {
  const FakeGpu fake;
  fake.set("polls", 0);
  const auto library = ncclAt(MUSTER_FAKE_GPU);
  for (int epoch = 0; epoch < 100; epoch++) {
    onRanks(2, [epoch](const Rank& rank) {
      const Abort never;
      const auto comm = rank.open();
      REQUIRE_OK(comm);
      const Floats own(rank.gpu, {1, 2}), sum(rank.gpu, {0, 0});
      REQUIRE_OK(comm.value()->run({sumOf(own, sum)}, patienceOf(never)));
      CHECK((sum.read() == std::vector<float>{2, 4}));
      if (epoch % 2 == 0) CHECK(comm.value()->close(patienceOf(never)).ok());
    });
  }
}
