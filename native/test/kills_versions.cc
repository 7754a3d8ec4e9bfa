#include "kills_versions.h"

#include <sstream>
#include <thread>

#include "core/block_digest.h"
#include "core/pull.h"
#include "core/version_store.h"

namespace muster::test {

namespace {

constexpr size_t kBytes = 6'345'677;

// What the versions of every trial are; made once, before any process.
struct Weights {
  Bytes bytes[2];
  uint64_t digests[2];
  const Bytes& of(uint64_t version) const { return bytes[version - 1]; }
  uint64_t digestOf(uint64_t version) const { return digests[version - 1]; }
};

const Weights& weights() {
  static const Weights all = [] {
    Weights made;
    std::mt19937_64 random(1);
    made.bytes[0].resize(kBytes);
    for (uint8_t& byte : made.bytes[0]) byte = static_cast<uint8_t>(random());
    made.bytes[1] = made.bytes[0];  // one element of a hundred is another
    for (size_t at = 0; at + 2 <= kBytes; at += 2) made.bytes[1][at] ^= random() % 100 == 0 ? 1 : 0;
    for (size_t i = 0; i < 2; i++) made.digests[i] = muster::digestOf(made.bytes[i]);
    return made;
  }();
  return all;
}

bool isWhole(ByteView bytes, uint64_t version) {
  const Bytes& expected = weights().of(version);
  return bytes.size() == expected.size() && std::memcmp(bytes.data(), expected.data(), expected.size()) == 0;
}

// A process with a store of versions.
class Member {
 public:
  Member(const std::string& name, const std::string& folder, bool deltas) : name_(name) {
    const DeltaOptions delta{deltas ? DeltaMode::Always : DeltaMode::Never, 0, 4};
    auto store = VersionStore::open({keyOf("key"), "job", name, folder, std::string("127.0.0.1"), size_t{7} << 20, 2, delta});
    if (store.ok()) store_ = store.value();
    else problem_ = store.status().message;
  }

  std::string perform(const std::string& command) {
    std::istringstream in(command);
    std::string verb;
    uint64_t version = 0;
    in >> verb >> version;
    if (!store_) return problem_;
    if (verb == "addresses") return store_->addresses()[0] + " " + store_->addresses()[1];
    if (verb == "publish") {
      const auto published = store_->publish({1, version}, {{"weights", weights().of(version)}}, never_);
      return published.ok() ? "ok" : published.status().message;
    }
    if (verb == "pull") return pullVersion(version, in);
    return check();
  }

 private:
  // pull <version> map|copy|keep <ms> <pid to strike or 0> <signal> <offset> <holder>…
  std::string pullVersion(uint64_t version, std::istringstream& in) {
    std::string way, holder;
    int ms = 0, signal = 0;
    pid_t target = 0;
    uint64_t offset = 0;
    in >> way >> ms >> target >> signal >> offset;
    PullOptions options{keyOf("key"), "job", name_, {}, {1, version}, {{"weights", kBytes, weights().digestOf(version)}}, nullptr};
    while (in >> holder) options.holders.push_back(parseAddress(holder).value());
    Bytes copy(way == "copy" ? kBytes : 0);
    if (way == "copy") options.into = {copy};
    if (way == "keep") options.keepIn = store_;
    std::atomic<bool> over{false};
    std::thread striker([&] { if (target > 0) strikeAt(version, offset, over, target, signal); });
    const Result<Pulled> pulled = pull(options, patienceOf(never_, ms));
    over = true;
    striker.join();
    if (!pulled.ok()) {
      if (store_->holds({1, version})) return "TORN: a pull failed, and its version is there";
      return "failed: " + pulled.status().message.substr(0, 3'000);
    }
    if (!isWhole(way == "copy" ? ByteView(copy) : pulled.value().sections.front(), version)) return "TORN: delivered bytes";
    if (way == "keep" && !store_->holds({1, version})) return "TORN: delivered, and not in the store";
    held_.push_back({version, pulled.value()});
    return "ok";
  }

  // As soon as so many bytes of the version are verified in this store, and not when all are.
  void strikeAt(uint64_t version, uint64_t offset, const std::atomic<bool>& over, pid_t target, int signal) {
    while (!over) {
      const Result<VersionArena::Lease> lease = store_->lease({1, version});
      if (!lease.ok()) {
        std::this_thread::yield();
        continue;
      }
      Progress progress = lease.value().await(0, Milliseconds(0));
      while (!over && progress.state == Arrival::Arriving && progress.watermark < offset)
        progress = lease.value().await(progress.watermark, Milliseconds(50));
      if (progress.state == Arrival::Arriving && progress.watermark >= offset) ::kill(target, signal);
      return;
    }
  }

  // Everything that was ever delivered here and is still held, and everything in the store.
  std::string check() {
    for (const Held& each : held_)
      if (!isWhole(each.pulled.sections.front(), each.version)) return "TORN: version " + std::to_string(each.version) + " that is held";
    for (const VersionId id : store_->versions()) {
      const Result<VersionArena::Lease> lease = store_->lease(id);
      if (!lease.ok()) return lease.status().message;
      const Section& section = lease.value().sections().all().front();
      if (!isWhole({lease.value().data() + section.offset, section.bytes}, id.version)) return "TORN: " + id.text() + " in the store";
    }
    return "ok";
  }

  struct Held {
    uint64_t version;
    Pulled pulled;
  };
  const std::string name_;
  std::shared_ptr<VersionStore> store_;
  std::string problem_;
  std::vector<Held> held_;
  const Abort never_;
};

struct Actor {
  Player* player;
  std::string unixAddress, tcpAddress;
};

Actor castMember(Trial& trial, const std::string& name, bool deltas) {
  (void)weights();
  Player& player = trial.cast(name, [&trial, name, deltas]() -> Player::Role {
    const auto member = std::make_shared<Member>(name, trial.folder(), deltas);
    return [member](const std::string& command) { return member->perform(command); };
  });
  Actor actor{&player, "", ""};
  std::istringstream(trial.ask(player, "addresses")) >> actor.unixAddress >> actor.tcpAddress;
  if (actor.tcpAddress.empty()) trial.complain(name + " has no store");
  return actor;
}

struct Watch {  // who strikes whom, at which offset
  const Player* by = nullptr;
  pid_t target = 0;
  int signal = 0;
  uint64_t offset = 0;
};

std::string pullText(uint64_t version, const std::string& way, Milliseconds limit, const std::vector<std::string>& holders,
                     const Watch& watch = {}) {
  std::ostringstream out;
  out << "pull " << version << ' ' << way << ' ' << limit.count() << ' ' << watch.target << ' ' << watch.signal << ' ' << watch.offset;
  for (const std::string& holder : holders) out << ' ' << holder;
  return out.str();
}

// What survivors said, and that all of them come to the version afterwards: those that failed, and the victim or who replaces it.
void settle(Trial& trial, const std::vector<Actor>& readers, const Strike& strike, const Actor& healthy, bool mustSucceed) {
  for (const Actor& reader : readers) {
    Player& player = *reader.player;
    const std::string said = player.answer().value_or("");
    if (said.starts_with("TORN")) trial.complain(player.name() + ": " + said);
    if (&player == strike.victim) continue;
    if (mustSucceed && said != "ok") trial.complain(player.name() + " has a healthy holder, and says: " + said);
    if (said != "ok") trial.demand(player, pullText(2, "keep", kOrdinary, {healthy.tcpAddress}));
    trial.demand(player, "check");
  }
  trial.demand(*healthy.player, "check");
  Player* last = strike.victim;
  if (strike.signal == SIGKILL) {
    strike.victim->end();
    last = castMember(trial, strike.victim->name(), false).player;  // the same name, and the same socket path
  }
  trial.demand(*last, pullText(2, "keep", kOrdinary, {healthy.tcpAddress}));
  trial.demand(*last, "check");
}

std::vector<Actor> castReaders(Trial& trial, const Actor& source) {
  std::vector<Actor> readers;
  for (const std::string way : {"map", "copy", "keep"}) {
    readers.push_back(castMember(trial, way, false));
    const std::string& holder = way == "keep" ? source.tcpAddress : source.unixAddress;
    trial.demand(*readers.back().player, pullText(1, way, kOrdinary, {holder}));  // stays held
  }
  return readers;
}

}  // namespace

void strikePublisher(Trial& trial) {
  const Actor publisher = castMember(trial, "publisher", false), spare = castMember(trial, "spare", false);
  for (const Actor& each : {publisher, spare}) trial.demand(*each.player, "publish 1");
  const std::vector<Actor> readers = castReaders(trial, publisher);
  trial.plan = "publish";
  Strike strike = trial.strikeOn(*publisher.player, false);
  strike.at = std::chrono::microseconds(trial.below(6'000));
  std::vector<Player*> players{publisher.player};
  publisher.player->tell("publish 2");
  for (const Actor& reader : readers) {
    const std::string& way = reader.player->name();
    reader.player->tell(pullText(2, way, kDeadline, {way == "keep" ? publisher.tcpAddress : publisher.unixAddress}));
    players.push_back(reader.player);
  }
  trial.perform(players, strike, kDeadline);
  if (strike.signal == SIGSTOP && publisher.player->answer() != "ok") trial.complain("the thawed publisher did not publish");
  trial.demand(*spare.player, "publish 2");
  settle(trial, readers, strike, spare, false);
}

void strikeSource(Trial& trial) {
  const Actor source = castMember(trial, "source", false), spare = castMember(trial, "spare", false);
  for (const Actor& each : {source, spare}) trial.demand(*each.player, "publish 1");
  const std::vector<Actor> readers = castReaders(trial, source);
  for (const Actor& each : {source, spare}) trial.demand(*each.player, "publish 2");
  const bool alone = trial.below(2) == 0, byOffset = trial.below(2) == 0;
  trial.plan = alone ? "serve" : "serve beside a spare";
  Strike strike = trial.strikeOn(*source.player, byOffset);
  Watch watch;
  if (byOffset) watch = {readers[2].player, source.player->pid(), strike.signal, trial.below(kBytes)};
  else strike.at = std::chrono::microseconds(trial.below(10'000));
  if (byOffset) trial.plan += " at byte " + std::to_string(watch.offset);
  std::vector<Player*> players;
  for (const Actor& reader : readers) {
    const std::string& way = reader.player->name();
    std::vector<std::string> holders{way == "keep" ? source.tcpAddress : source.unixAddress};
    if (!alone) holders.push_back(way == "keep" ? spare.tcpAddress : spare.unixAddress);
    reader.player->tell(pullText(2, way, kDeadline, holders, reader.player == watch.by ? watch : Watch{}));
    players.push_back(reader.player);
  }
  trial.perform(players, strike, kDeadline);
  settle(trial, readers, strike, spare, !alone);
}

void strikeChain(Trial& trial) {
  const bool deltas = trial.below(2) == 0, byOffset = trial.below(4) != 0;
  const Actor source = castMember(trial, "source", deltas), spare = castMember(trial, "spare", deltas);
  std::vector<Actor> chain;
  for (const char* name : {"first", "middle", "last"}) chain.push_back(castMember(trial, name, deltas));
  for (const Actor& each : chain) trial.demand(*each.player, "publish 1");
  for (const Actor& each : {source, spare})
    for (const char* command : {"publish 1", "publish 2"}) trial.demand(*each.player, command);
  trial.plan = deltas ? "chain of deltas" : "chain";
  const uint64_t which = trial.below(4);
  Strike strike = trial.strikeOn(which == 3 ? *source.player : *chain[which].player, byOffset);
  // A receiver is struck at an offset of its own; the source at one of the first receiver.
  Watch watch{chain[which == 3 ? 0 : which].player, strike.victim->pid(), strike.signal, trial.below(kBytes)};
  if (!byOffset) watch = {}, strike.at = std::chrono::microseconds(trial.below(20'000));
  if (byOffset) trial.plan += " at byte " + std::to_string(watch.offset);
  std::vector<Player*> players;
  for (size_t i = 0; i < chain.size(); i++) {
    const std::string& upstream = i == 0 ? source.tcpAddress : chain[i - 1].tcpAddress;
    const Watch own = chain[i].player == watch.by ? watch : Watch{};
    chain[i].player->tell(pullText(2, "keep", kDeadline, {upstream, source.tcpAddress, spare.tcpAddress}, own));
    players.push_back(chain[i].player);
  }
  trial.perform(players, strike, kDeadline);
  settle(trial, chain, strike, spare, true);
}

}  // namespace muster::test
