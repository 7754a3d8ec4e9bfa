#include "kills_reductions.h"

#include <sstream>

#include "core/group.h"
#include "core/mesh.h"
#include "core/version_store.h"

namespace muster::test {

namespace {

constexpr uint32_t kShards = 8;
constexpr size_t kElements = 60'001;
constexpr uint64_t kPatterns = 3;  // op n has the values of pattern n % kPatterns
constexpr Milliseconds kOpDeadline{500};
constexpr int kOps = 400;  // more than are done before the strike
constexpr Milliseconds kAllOps{60'000};  // for all of them, after a freeze that nobody noticed; each has kOpDeadline

// Whole numbers, small enough that every order of addition gives the same sum: a group may have any members.
float valueOf(uint64_t row, size_t i) { return static_cast<float>((row * 7919 + i * 31) % 1'000'003); }

// rows[pattern][shard]: what shards and inputs are; made once, before any process.
const std::vector<std::vector<float>>& rowsOf(uint64_t op) {
  static const auto all = [] {
    std::vector<std::vector<std::vector<float>>> made(kPatterns);
    for (uint64_t pattern = 0; pattern < kPatterns; pattern++)
      for (uint64_t shard = 0; shard < kShards; shard++) {
        std::vector<float>& row = made[pattern].emplace_back(kElements);
        for (size_t i = 0; i < kElements; i++) row[i] = valueOf(pattern * kShards + shard, i);
      }
    return made;
  }();
  return all[op % kPatterns];
}

std::vector<float> sumOf(uint64_t op, const std::vector<uint32_t>& rows) {
  std::vector<float> sum(kElements);
  for (const uint32_t row : rows)
    for (size_t i = 0; i < kElements; i++) sum[i] += rowsOf(op)[row][i];
  return sum;
}

bool same(std::span<const float> got, const std::vector<float>& expected) {
  return std::memcmp(got.data(), expected.data(), kElements * sizeof(float)) == 0;
}

// A process that is a rank. Its number never changes; its rank is its place among those of the epoch.
class Adder {
 public:
  Adder(uint32_t number, const std::string& folder, bool group) : number_(number), folder_(folder), group_(group) {
    auto store = VersionStore::open({keyOf("key"), "job", "member-" + std::to_string(number), folder, std::string("127.0.0.1"), 1024, 2});
    if (store.ok()) store_ = store.value();
  }

  std::string perform(const std::string& command) {
    std::istringstream in(command);
    std::string verb;
    in >> verb;
    if (!store_) return "no store";
    if (verb == "address") return store_->addresses()[1];
    if (verb == "join") return join(in);
    int ops = 0;
    in >> ops;
    return add(ops);
  }

 private:
  // join <epoch> (<number> <host> <address>)…, in rank order
  std::string join(std::istringstream& in) {
    mesh_.reset(), collectives_.reset(), rows_.clear();
    MeshOptions options{keyOf("key"), "job", 0, 0, {}, folder_, kShards, kElements};
    uint32_t number = 0;
    std::string host, address;
    in >> options.epoch;
    while (in >> number >> host >> address) {
      if (number == number_) options.rank = static_cast<uint32_t>(options.members.size());
      options.members.push_back("member-" + std::to_string(number));
      options.places.push_back({host, address});
      rows_.push_back(number);
    }
    options.store = store_;
    rank_ = options.rank;
    Status joined;
    if (group_) {
      options.group = "group";
      auto opened = Group::open(options, kElements * sizeof(float), patienceOf(never_));
      joined = opened.status();
      if (opened.ok()) collectives_ = opened.value();
    } else {
      auto opened = Mesh::open(options, patienceOf(never_));
      joined = opened.status();
      if (opened.ok()) mesh_ = opened.value();
    }
    if (!joined.ok()) return joined.message;
    sums_.clear();
    std::vector<uint32_t> all(kShards);
    for (uint32_t shard = 0; shard < kShards; shard++) all[shard] = shard;
    for (uint64_t op = 0; op < kPatterns; op++) sums_.push_back(sumOf(op, group_ ? rows_ : all));
    return "ok";
  }

  // The places of this rank's values, and what belongs there.
  std::vector<std::pair<std::span<float>, uint32_t>> inputs() const {
    if (group_) return {{{reinterpret_cast<float*>(collectives_->input().data()), kElements}, number_}};
    std::vector<std::pair<std::span<float>, uint32_t>> out;
    for (uint32_t shard = rank_; shard < kShards; shard += static_cast<uint32_t>(rows_.size())) out.push_back({mesh_->shard(shard), shard});
    return out;
  }

  Status reduce(uint64_t op) {
    if (group_) {
      Operation sum;
      sum.kind = Operation::Kind::AllReduce;
      sum.dtype = DType::F32;
      sum.count = kElements;
      return collectives_->run(sum, patienceOf(never_, static_cast<int>(kOpDeadline.count())));
    }
    std::vector<uint32_t> written;
    for (const auto& [place, shard] : inputs()) written.push_back(shard);
    return mesh_->reduce({op, written}, patienceOf(never_, static_cast<int>(kOpDeadline.count())));
  }

  // "ok", "TORN …", or "failed <ms of the operation> <code>".
  std::string add(int ops) {
    for (int op = 0; op < ops; op++) {
      for (const auto& [place, row] : inputs()) std::ranges::copy(rowsOf(op)[row], place.begin());
      const auto began = Clock::now();
      const Status done = reduce(static_cast<uint64_t>(op));
      const auto ms = std::chrono::duration_cast<Milliseconds>(Clock::now() - began).count();
      for (const auto& [place, row] : inputs())
        if (!same(place, rowsOf(op)[row])) return "TORN: an input of op " + std::to_string(op);
      if (!done.ok()) return "failed " + std::to_string(ms) + " " + nameOf(done.code) + " " + done.message;
      const auto* sum = group_ ? reinterpret_cast<const float*>(collectives_->result().data()) : mesh_->result().data();
      if (!same({sum, kElements}, sums_[op % kPatterns])) return "TORN: the sum of op " + std::to_string(op);
    }
    return "ok";
  }

  const uint32_t number_;
  const std::string folder_;
  const bool group_;
  std::shared_ptr<VersionStore> store_;
  std::shared_ptr<Mesh> mesh_;
  std::shared_ptr<Collectives> collectives_;
  uint32_t rank_ = 0;
  std::vector<uint32_t> rows_;
  std::vector<std::vector<float>> sums_;
  const Abort never_;
};

struct Rank {
  Player* player;
  uint32_t number;
  std::string host, address;
};

std::vector<Player*> playersOf(const std::vector<Rank>& ranks) {
  std::vector<Player*> players;
  for (const Rank& rank : ranks) players.push_back(rank.player);
  return players;
}

// All form the mesh of an epoch.
void form(Trial& trial, const std::vector<Rank>& ranks, uint64_t epoch) {
  std::ostringstream text;
  text << "join " << epoch;
  for (const Rank& rank : ranks) text << ' ' << rank.number << ' ' << rank.host << ' ' << rank.address;
  trial.demandAll(playersOf(ranks), text.str());
}

std::vector<Rank> castRanks(Trial& trial, bool group) {
  static const std::vector<std::string> kPlacements = {"aa", "aaa", "ab", "aab", "aabb", "abab"};
  const std::string& hosts = kPlacements[trial.below(kPlacements.size())];
  trial.plan = std::string(group ? "all-reduce" : "gradients") + ", hosts " + hosts;
  std::vector<Rank> ranks;
  (void)rowsOf(0);
  for (uint32_t number = 0; number < hosts.size(); number++) {
    Player& player = trial.cast("rank-" + std::to_string(number), [&trial, number, group]() -> Player::Role {
      const auto adder = std::make_shared<Adder>(number, trial.folder(), group);
      return [adder](const std::string& command) { return adder->perform(command); };
    });
    ranks.push_back({&player, number, std::string(1, hosts[number]), trial.ask(player, "address")});
  }
  return ranks;
}

// What a survivor may say: that it lost somebody, in time. A death is noticed; who is frozen may just be late.
void judge(Trial& trial, const Rank& rank, const Strike& strike) {
  const std::string said = rank.player->answer().value_or("failed 0 no answer");
  std::istringstream in(said);
  std::string verdict, code;
  int64_t ms = 0;
  in >> verdict >> ms >> code;
  const std::string who = rank.player->name() + ": ";
  if (verdict != "failed" || (code != "PEER_LOST" && (code != "TIMEOUT" || strike.signal == SIGKILL))) trial.complain(who + said);
  if (ms > (kOpDeadline + kMargin).count()) trial.complain(who + "past its deadline: " + said);
}

void strikeRank(Trial& trial, bool group) {
  const std::vector<Rank> ranks = castRanks(trial, group);
  form(trial, ranks, 1);
  const size_t which = trial.below(ranks.size());
  Strike strike = trial.strikeOn(*ranks[which].player, false);
  strike.at = std::chrono::microseconds(trial.below(30'000));
  for (const Rank& rank : ranks) rank.player->tell("add " + std::to_string(kOps));
  trial.perform(playersOf(ranks), strike, kAllOps);
  std::vector<Rank> survivors = ranks;
  survivors.erase(survivors.begin() + static_cast<ptrdiff_t>(which));
  const bool noticed = trial.inTime && (strike.signal == SIGKILL || !strike.thawAfter);  // a short freeze may not be
  for (const Rank& rank : survivors)
    if (noticed || rank.player->answer() != "ok") judge(trial, rank, strike);
  if (strike.victim->answer().value_or("").starts_with("TORN")) trial.complain(*strike.victim->answer());
  form(trial, survivors, 2);
  trial.demandAll(playersOf(survivors), "add 3");
}

}  // namespace

void strikeGradients(Trial& trial) { strikeRank(trial, false); }
void strikeAllReduce(Trial& trial) { strikeRank(trial, true); }

}  // namespace muster::test
