#include "collectives_suite.h"

namespace muster::test {

namespace {

using Kind = Operation::Kind;
using Bytes8 = std::vector<uint8_t>;

constexpr uint32_t kWorlds[] = {1, 2, 3, 8};
constexpr uint64_t kCounts[] = {0, 1, 15, 17, 1'003, 70'001};

// All ranks of a new group do the same thing; `each` says what for.
void inWorld(const Backend& backend, uint32_t world, const std::function<void(Collectives&, uint32_t)>& each) {
  const Ranks ranks = backend.open(world);
  CHECK(ranks.size() == world);
  if (ranks.size() == world) onRanks(world, [&](uint32_t rank) { each(*ranks[rank], rank); });
}

float valueOf(const Bytes8& bytes, DType dtype, uint64_t i) {
  float value = 0;
  uint16_t half = 0;
  if (dtype == DType::F32) std::memcpy(&value, bytes.data() + i * 4, 4);
  else std::memcpy(&half, bytes.data() + i * 2, 2);
  return dtype == DType::F32 ? value : fromBf16(half);
}

void sumsAreExact(const Backend& backend) {
  for (const uint32_t world : kWorlds)
    inWorld(backend, world, [&](Collectives& group, uint32_t rank) {
      const Abort never;
      for (const DType dtype : {DType::F32, DType::Bf16})
        for (const Kind kind : {Kind::AllReduce, Kind::ReduceScatter})
          for (const uint64_t count : kCounts) {
            const Bytes8 input = wholeNumbersOf(dtype, rank, count);
            fill(group, input);
            const Range part = kind == Kind::AllReduce ? Range{0, count} : sliceOf(count, rank, world);
            Operation operation = operationOf(kind, dtype, count);
            Bytes8 own((part.end - part.begin) * sizeOf(dtype));
            operation.into = own;
            REQUIRE_OK(group.run(operation, patienceOf(never)));
            CHECK(own == resultOf(group, {part.begin * sizeOf(dtype), part.end * sizeOf(dtype)}));
            std::vector<Bytes8> inputs;
            for (uint32_t r = 0; r < world; r++) inputs.push_back(wholeNumbersOf(dtype, r, count));
            const Bytes8 sum = resultOf(group, {0, count * sizeOf(dtype)});
            bool right = true;
            for (size_t i = part.begin; i < part.end; i++) {
              float expected = 0;
              for (const Bytes8& each : inputs) expected += valueOf(each, dtype, i);
              right = right && valueOf(sum, dtype, i) == expected;
            }
            CHECK(right);
            CHECK(std::equal(input.begin(), input.end(), group.input().begin()));  // inputs stay as they were
          }
    });
}

void resultsHaveTheSameBits(const Backend& backend) {
  for (const uint32_t world : {2u, 3u, 8u})
    for (const DType dtype : {DType::F32, DType::Bf16}) {
      std::vector<Bytes8> results(world);
      inWorld(backend, world, [&](Collectives& group, uint32_t rank) {
        const Abort never;
        fill(group, inputOf(dtype, rank, 70'001));
        Operation mean = operationOf(Kind::AllReduce, dtype, 70'001);
        mean.reduction = Operation::Reduction::Mean;
        REQUIRE_OK(group.run(mean, patienceOf(never)));
        results[rank] = resultOf(group, {0, mean.bytes()});
      });
      for (const Bytes8& each : results) CHECK(each == results[0]);
    }
}

void meansAndNarrowSumsAreRoundedOnce(const Backend& backend) {
  inWorld(backend, 3, [&](Collectives& group, uint32_t rank) {
    const Abort never;
    // 256 + 1 + 1 is 258; in bfloat16 alone 256 + 1 would stay 256.
    const uint16_t half = toBf16(rank == 0 ? 256.f : 1.f);
    std::memcpy(group.input().data(), &half, 2);
    Operation sum = operationOf(Kind::AllReduce, DType::Bf16, 1);
    REQUIRE_OK(group.run(sum, patienceOf(never)));
    CHECK(valueOf(resultOf(group, {0, 2}), DType::Bf16, 0) == 258.f);
    sum.reduction = Operation::Reduction::Mean;
    REQUIRE_OK(group.run(sum, patienceOf(never)));
    CHECK(valueOf(resultOf(group, {0, 2}), DType::Bf16, 0) == 86.f);
  });
}

// In bfloat16, 256, 258 and 260 are neighbours; 0x7F7F is the largest number, and 0x7B00 half of its last place.
void narrowSumsAreRoundedToTheNearest(const Backend& backend) {
  constexpr uint16_t kFirst[] = {0x4380, 0x4381, 0x4380, 0xC381, 0x7F7F, 0x8000};  // 256, 258, 256, -258, the largest, -0
  constexpr uint16_t kLast[] = {0x3F80, 0x3F80, 0x3FC0, 0xBF80, 0x7B00, 0x8000};   // 1, 1, 1.5, -1, half a place, -0
  constexpr uint16_t kSum[] = {0x4380, 0x4382, 0x4381, 0xC382, 0x7F80, 0x8000};    // ties go to the even one, and to infinity
  constexpr uint64_t kCount = std::size(kSum);
  for (const uint32_t world : {2u, 3u, 8u})
    inWorld(backend, world, [&](Collectives& group, uint32_t rank) {
      const Abort never;
      Bytes8 input(sizeof(kSum));
      for (size_t i = 0; i < kCount; i++) {
        const uint16_t put = rank == 0 ? kFirst[i] : rank == 1 ? kLast[i] : 0x8000;  // -0 changes no sum
        std::memcpy(input.data() + 2 * i, &put, 2);
      }
      for (const Kind kind : {Kind::AllReduce, Kind::ReduceScatter}) {
        fill(group, input);
        REQUIRE_OK(group.run(operationOf(kind, DType::Bf16, kCount), patienceOf(never)));
        const Range part = kind == Kind::AllReduce ? Range{0, kCount} : sliceOf(kCount, rank, world);
        const Bytes8 got = resultOf(group, {part.begin * 2, part.end * 2});
        Bytes8 expected(sizeof(kSum));
        std::memcpy(expected.data(), kSum, sizeof(kSum));
        CHECK(std::equal(got.begin(), got.end(), expected.begin() + static_cast<ptrdiff_t>(part.begin * 2)));
      }
    });
}

void copiesAreBitExact(const Backend& backend) {
  for (const uint32_t world : kWorlds)
    inWorld(backend, world, [&](Collectives& group, uint32_t rank) {
      const Abort never;
      for (const DType dtype : {DType::F32, DType::Bf16, DType::U8})
        for (const uint64_t count : kCounts) {
          const uint32_t root = static_cast<uint32_t>(count) % world;
          fill(group, inputOf(dtype, rank, count));
          Operation broadcast = operationOf(Kind::Broadcast, dtype, count);
          broadcast.peer = root;
          REQUIRE_OK(group.run(broadcast, patienceOf(never)));
          CHECK(resultOf(group, {0, broadcast.bytes()}) == inputOf(dtype, root, count));
          REQUIRE_OK(group.run(operationOf(Kind::AllGather, dtype, count), patienceOf(never)));
          for (uint32_t r = 0; r < world; r++)
            CHECK(resultOf(group, {r * broadcast.bytes(), (r + 1) * broadcast.bytes()}) == inputOf(dtype, r, count));
          REQUIRE_OK(group.run({}, patienceOf(never)));
        }
    });
}

void messagesArrive(const Backend& backend) {
  for (const uint32_t world : {2u, 3u, 8u})
    inWorld(backend, world, [&](Collectives& group, uint32_t rank) {
      const Abort never;
      for (const uint64_t count : {uint64_t{1}, uint64_t{0}, uint64_t{700'001}}) {
        // Around: rank 0 begins, and each passes on to the next what it got.
        Bytes8 got(count * 4);
        Operation receive = operationOf(Kind::Receive, DType::F32, count);
        receive.peer = (rank + world - 1) % world;
        receive.into = got;
        Operation send = operationOf(Kind::Send, DType::F32, count);
        send.peer = (rank + 1) % world;
        if (rank != 0) REQUIRE_OK(group.run(receive, patienceOf(never)));
        fill(group, rank == 0 ? inputOf(DType::F32, 9, count) : got);
        REQUIRE_OK(group.run(send, patienceOf(never)));
        if (rank == 0) REQUIRE_OK(group.run(receive, patienceOf(never)));
        CHECK(got == inputOf(DType::F32, 9, count));
      }
    });
}

void differentOperationsAreSeen(const Backend& backend) {
  const std::pair<Operation, Operation> pairs[] = {
      {operationOf(Kind::AllReduce, DType::F32, 5), operationOf(Kind::AllReduce, DType::F32, 6)},
      {operationOf(Kind::AllReduce, DType::F32, 6), operationOf(Kind::AllReduce, DType::Bf16, 6)},
      {operationOf(Kind::AllGather, DType::U8, 6), operationOf(Kind::Broadcast, DType::U8, 6)}};
  for (const auto& [first, second] : pairs)
    inWorld(backend, 2, [&](Collectives& group, uint32_t rank) {
      const Abort never;
      CHECK(group.run(rank == 0 ? first : second, patienceOf(never)).code == Code::Disagreement);
      CHECK(group.run({}, patienceOf(never)).code == Code::Closed);
    });
  inWorld(backend, 2, [&](Collectives& group, uint32_t rank) {
    const Abort never;
    Bytes8 got(8);
    Operation message = operationOf(rank == 0 ? Kind::Send : Kind::Receive, DType::F32, rank == 0 ? 3 : 2);
    message.peer = 1 - rank;
    if (rank == 1) message.into = got;
    CHECK(group.run(message, patienceOf(never)).code == Code::Disagreement);
  });
}

void wrongCallsChangeNothing(const Backend& backend) {
  inWorld(backend, 2, [&](Collectives& group, uint32_t rank) {
    const Abort never;
    Operation self = operationOf(Kind::Send, DType::U8, 1);
    self.peer = rank;
    Operation nobody = operationOf(Kind::Broadcast, DType::U8, 1);
    nobody.peer = 2;
    for (const Operation& wrong : {operationOf(Kind::AllReduce, DType::F32, kCapacity), operationOf(Kind::AllReduce, DType::U8, 1),
                                   operationOf(Kind::AllGather, DType::U8, kCapacity / 2 + 1), self, nobody})
      CHECK(group.run(wrong, patienceOf(never)).code == Code::InvalidArgument);
    REQUIRE_OK(group.run({}, patienceOf(never)));
  });
}

// Two operations of rank 0 at once, each with an input of its own; rank 1 comes when one of them was refused.
void aSecondOperationIsRefused(const Backend& backend) {
  constexpr uint64_t kCount = 20'003;
  constexpr uint8_t kUntouched = 0xEE;
  for (const Kind kind : {Kind::Barrier, Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather, Kind::Broadcast, Kind::Send, Kind::Receive}) {
    const Ranks ranks = backend.open(2);
    CHECK(ranks.size() == 2);
    if (ranks.size() != 2) return;
    const uint64_t count = kind == Kind::Barrier ? 0 : kCount;
    const uint64_t bytes = count * sizeof(float);
    const Range part = kind == Kind::ReduceScatter ? sliceOf(count, 0, 2) : Range{0, count};
    const uint64_t targetBytes = kind == Kind::AllGather ? 2 * bytes : (part.end - part.begin) * sizeof(float);
    struct Try {
      Bytes8 from;
      Bytes8 into;
      Bytes8 scattered;
      Status status{};
    };
    std::vector<Try> tries;
    for (uint32_t i = 0; i < 2; i++)
      tries.push_back({wholeNumbersOf(DType::F32, 7 + 5 * i, count), Bytes8(targetBytes, kUntouched), Bytes8(targetBytes, kUntouched)});
    std::atomic<bool> refused{false};
    onRanks(3, [&](uint32_t thread) {
      const Abort never;
      const Patience patience = patienceOf(never);
      Operation operation = operationOf(kind, DType::F32, count);
      if (thread == 2) {  // rank 1
        while (!refused && !patience.deadline.passed()) std::this_thread::yield();
        Bytes8 got(bytes);
        std::fill_n(ranks[1]->input().data(), bytes, uint8_t{0});
        if (kind == Kind::Send || kind == Kind::Receive) operation.kind = kind == Kind::Send ? Kind::Receive : Kind::Send;
        if (operation.kind == Kind::Receive) operation.into = got;
        REQUIRE_OK(ranks[1]->run(operation, patience));
        return;
      }
      Try& own = tries[thread];
      const Copy gather{ranks[0]->input().data(), own.from.data(), own.from.size()};
      const Copy scatter{own.scattered.data(), ranks[0]->result().data() + part.begin * sizeof(float), own.scattered.size()};
      operation.peer = kind == Kind::Send || kind == Kind::Receive ? 1 : 0;
      operation.gathers = std::span(&gather, 1);
      if (kind != Kind::Send) operation.into = own.into;
      if (kind != Kind::Send && kind != Kind::Receive) operation.scatters = std::span(&scatter, 1);
      own.status = ranks[0]->run(operation, patience);
      if (own.status.code == Code::InvalidArgument) refused = true;
    });
    CHECK(refused);
    CHECK(tries[0].status.ok() != tries[1].status.ok());
    const Try& winner = tries[tries[0].status.ok() ? 0 : 1];
    const Try& loser = tries[tries[0].status.ok() ? 1 : 0];
    const auto untouched = [](const Bytes8& target) { return std::ranges::all_of(target, [](uint8_t byte) { return byte == kUntouched; }); };
    CHECK(untouched(loser.into) && untouched(loser.scattered));
    CHECK(std::equal(winner.from.begin(), winner.from.end(), ranks[0]->input().begin()));
    if (kind == Kind::Barrier || kind == Kind::Send) continue;
    Bytes8 expected(winner.from.begin() + static_cast<ptrdiff_t>(part.begin * sizeof(float)),
                    winner.from.begin() + static_cast<ptrdiff_t>(part.end * sizeof(float)));
    if (kind == Kind::AllGather) expected.resize(2 * bytes);  // and the zeros of rank 1
    if (kind == Kind::Receive) std::ranges::fill(expected, uint8_t{0});
    CHECK(winner.into == expected);
    if (kind != Kind::Receive) CHECK(winner.scattered == expected);
  }
}

void whoIsLateIsNamed(const Backend& backend) {
  const Ranks ranks = backend.open(3);
  if (ranks.size() != 3) return;
  onRanks(2, [&](uint32_t rank) {
    const Abort never;
    fill(*ranks[rank], inputOf(DType::F32, rank, 1'000));
    const Status late = ranks[rank]->run(operationOf(Kind::AllReduce, DType::F32, 1'000), patienceOf(never, 100));
    // The one whose deadline passes first leaves, and the other may see that first.
    CHECK(late.code == Code::Timeout || late.code == Code::PeerLost);
    CHECK(late.code != Code::Timeout || late.ranks == std::vector<uint32_t>{2});
    CHECK(std::ranges::equal(ranks[rank]->input().first(4'000), inputOf(DType::F32, rank, 1'000)));
  });
}

void whoLeavesIsNamed(const Backend& backend) {
  for (const Kind kind : {Kind::AllReduce, Kind::Receive, Kind::Send}) {
    const Ranks ranks = backend.open(2);
    if (ranks.size() != 2) return;
    const Abort never;
    Bytes8 got(1);
    std::thread leaver([&] { ranks[1]->close(), ranks[1]->close(); });
    Operation operation = operationOf(kind, kind == Kind::AllReduce ? DType::F32 : DType::U8, 1);
    operation.peer = 1;
    if (kind == Kind::Receive) operation.into = got;
    const Status lost = ranks[0]->run(operation, patienceOf(never));
    CHECK(lost.code == Code::PeerLost && lost.ranks == std::vector<uint32_t>{1});
    leaver.join();
  }
}

void anAbortEndsAWait(const Backend& backend) {
  const Ranks ranks = backend.open(2);
  if (ranks.size() != 2) return;
  Abort stop;
  std::thread stopper([&] { stop.request(); });
  CHECK(ranks[0]->run(operationOf(Kind::AllReduce, DType::F32, 9), patienceOf(stop)).code == Code::Aborted);
  stopper.join();
  const Ranks again = backend.open(2);
  if (again.size() != 2) return;
  const Abort never;
  std::thread aborter([&] { again[0]->abort("not today"), again[0]->abort("twice"); });
  const Status aborted = again[0]->run({}, patienceOf(never));
  CHECK(aborted.code == Code::Aborted && aborted.message == "not today");
  aborter.join();
}

}  // namespace

void runComplianceSuite(const Backend& backend) {
  const std::pair<const char*, void (*)(const Backend&)> sentences[] = {
      {"sums and slices of sums are exact for every shape, and inputs stay as they were", sumsAreExact},
      {"all ranks get the same bits, whatever the bits of the inputs", resultsHaveTheSameBits},
      {"bfloat16 is added up in float32 and rounded once", meansAndNarrowSumsAreRoundedOnce},
      {"sums in bfloat16 are rounded to the nearest, and to the even one of two", narrowSumsAreRoundedToTheNearest},
      {"broadcast and all-gather copy every bit", copiesAreBitExact},
      {"messages go from rank to rank", messagesArrive},
      {"different operations are seen, and spend the group", differentOperationsAreSeen},
      {"a call that is wrong in itself changes nothing", wrongCallsChangeNothing},
      {"an operation beside one in progress is refused and changes nothing", aSecondOperationIsRefused},
      {"a rank that is late is named at the deadline, and inputs are kept for another try", whoIsLateIsNamed},
      {"a rank that leaves is named, and closing twice is harmless", whoLeavesIsNamed},
      {"an abort ends a wait, with its reason", anAbortEndsAWait},
  };
  for (const auto& [title, body] : sentences) {
    const int before = failures().load();
    body(backend);
    if (failures() != before) std::printf("FAILED %s: %s\n", backend.name, title);
  }
}

}  // namespace muster::test
