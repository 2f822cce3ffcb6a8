#include "tests/crash/load_thread.h"

#include <algorithm>

#include "tests/unit/support/eventually.h"

namespace ember::testing {
namespace {

using Kind = Promise::Kind;

constexpr Duration kTimeout = seconds(10);
constexpr Duration kPatience = seconds(60);
// Of one thread in one life, so that the loop is about crashes and not about throughput.
constexpr uint64_t kLifeBytes = 1500 << 10;
constexpr size_t kMaxChain = 8;

// Empty-ish, odd, around the unit of direct I/O, and as large as the node takes.
constexpr uint32_t kSizes[] = {1,      100,    4095,   4096,    4097,
                               20'000, 65'536, 65'536, 150'000, Variant::kMaxSegmentBytes};

// The node did not say whether it has the segment.
bool IsNoAnswer(MissReason reason) {
  return reason == MissReason::kBusy || reason == MissReason::kDeadline ||
         reason == MissReason::kLostNode;
}

}  // namespace

LoadThread::LoadThread(LoadShared* shared, std::string name, uint64_t seed)
    : shared_(shared),
      name_(std::move(name)),
      random_(seed),
      range_(name_, shared->lives, shared->variant.memory_keeps_all()),
      client_(Connect()),
      purge_client_(shared->grpc_address) {
  shared->ranges.push_back(&range_);
}

std::unique_ptr<StoreClient> LoadThread::Connect() const {
  StoreClientOptions options;
  options.seeds = {shared_->data};
  options.name = name_;
  options.tenant = name_;
  options.copies = 1;
  options.connect_timeout = seconds(2);
  options.back_off_min = milliseconds(2);
  options.back_off_max = milliseconds(10);
  Result<std::unique_ptr<StoreClient>> client = StoreClient::Create(std::move(options));
  EMBER_CHECK(client.ok(), "a client can be made");
  return *std::move(client);
}

void LoadThread::Run() {
  while (!shared_->stopping) {
    const Moment now = shared_->lives->Now();
    if (!now.up) {
      LetTimePass(milliseconds(1));
    } else if (now.life != std::exchange(surveyed_, now.life)) {
      life_bytes_ = 0;
      Survey();
    } else {
      Step();
      ++shared_->steps;
    }
  }
}

void LoadThread::Step() {
  const uint64_t choice = Draw(1000);
  if (choice < 8) return PurgeSome();
  const std::shared_lock lock(shared_->keys);
  if (choice < 450) return PutNew();
  if (choice < 550) return PutAgain();
  if (choice < 600) return AskForWhatNeverWas();
  if (choice < 620) return MatchAll();
  GetSome();
}

void LoadThread::GetSome() {
  if (range_.chains().empty()) return;
  OwnedChain& chain = range_.chains()[Draw(range_.chains().size())];
  (void)Get(&chain, Draw(2) == 0 ? *client_ : *fresh_client_);
}

// After each restart: what does the node say of everything, and are the bytes of some of it right?
void LoadThread::Survey() {
  const std::shared_lock lock(shared_->keys);
  fresh_client_ = Connect();
  MatchAll();
  for (int i = 0; i < 4; ++i) GetSome();
}

void LoadThread::VerifyAll() {
  fresh_client_ = Connect();
  MatchAll();
  for (OwnedChain& chain : range_.chains()) {
    if (!Eventually([&] { return Get(&chain, *fresh_client_); },
                    std::chrono::duration_cast<milliseconds>(kPatience))) {
      Broken(chain, 0, "no certain answer in a minute, though the node is up");
    }
  }
}

// ---- put

void LoadThread::PutNew() {
  const uint64_t so_far = shared_->put_bytes;
  const bool full = !shared_->variant.evicts && so_far > shared_->variant.load_bytes();
  if (full || life_bytes_ > kLifeBytes) return LetTimePass(milliseconds(1));
  const uint32_t bytes = kSizes[Draw(std::size(kSizes))];
  Put(&range_.Add(1 + Draw(kMaxChain), bytes), Draw(2) == 0 ? AckLevel::kMemory : AckLevel::kDisk);
}

void LoadThread::PutAgain() {
  if (range_.chains().empty()) return;
  OwnedChain& chain = range_.chains()[Draw(range_.chains().size())];
  // What was purged stays away only if nobody puts it again.
  if (chain.promises.front().kind == Kind::kPurged) return;
  Put(&chain, AckLevel::kDisk);
}

void LoadThread::Put(OwnedChain* chain, AckLevel level) {
  const Oracle oracle = range_.OracleOf(*chain);
  for (Promise& promise : chain->promises) KeyRange::PutBegins(&promise);
  const uint64_t bytes = (chain->payload_bytes + 8192) * chain->promises.size();
  shared_->put_bytes += bytes;
  life_bytes_ += bytes;
  const Moment begin = shared_->lives->Now();
  const std::vector<PutOutcome> outcomes = oracle.Put(*client_, kTimeout, {.ack = level});
  const Moment end = shared_->lives->Now();
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].copies == 0) continue;
    const bool on_disk = outcomes[i].disk_copies > 0;
    range_.PutEnds(&chain->promises[i], on_disk, begin, end);
    ++shared_->verdicts->puts;
    if (on_disk) ++shared_->verdicts->durable;
  }
}

// ---- purge

void LoadThread::PurgeSome() {
  const uint64_t choice = Draw(20);
  if (choice == 0) {
    const std::unique_lock lock(shared_->keys);
    return Purge({.kind = PurgeClient::Scope::Kind::kEverything}, shared_->ranges);
  }
  const std::shared_lock lock(shared_->keys);
  KeyRange* const own = &range_;
  if (choice % 2 == 0) {
    Purge({.kind = PurgeClient::Scope::Kind::kTenant, .tenant = name_}, {&own, 1});
  } else {
    const NamespaceId ns = Oracle(1, 1, 1, range_.salt()).ns();
    Purge({.kind = PurgeClient::Scope::Kind::kNamespace, .ns = ns}, {&own, 1});
  }
}

// Again until it is acknowledged: an operator would, too.
void LoadThread::Purge(const PurgeClient::Scope& scope, std::span<KeyRange* const> ranges) {
  for (KeyRange* range : ranges) range->PurgeBegins();
  while (!shared_->stopping) {
    if (!shared_->lives->Now().up) {
      LetTimePass(milliseconds(1));
      continue;
    }
    const Moment begin = shared_->lives->Now();
    const Status status = purge_client_.Purge(scope, kTimeout);
    if (status.ok()) {
      for (KeyRange* range : ranges) range->PurgeEnds();
      ++shared_->verdicts->purges;
      return;
    }
    if (shared_->lives->Now() == begin && begin.up) {
      shared_->verdicts->Broken(name_ + ": a purge was refused: " + status.ToString());
      return;
    }
  }
}

// ---- look

void LoadThread::AskForWhatNeverWas() {
  const OwnedChain never{.seed = ~static_cast<uint32_t>(Draw(1000)),
                         .payload_bytes = 1000,
                         .promises = std::vector<Promise>(4)};
  OwnedChain copy = never;
  (void)Get(&copy, *fresh_client_);
}

void LoadThread::MatchAll() {
  for (const OwnedChain& chain : range_.chains()) {
    if (shared_->stopping && !shared_->lives->Now().up) return;
    const Oracle oracle = range_.OracleOf(chain);
    const Moment begin = shared_->lives->Now();
    const MatchResult result = fresh_client_->Match(oracle.refs(), kTimeout);
    for (size_t i = 0; i < result.segments.size(); ++i) {
      const MissReason miss = result.segments[i].miss;
      (void)Judge(chain, i, begin, {miss == MissReason::kNone, miss});
    }
  }
}

bool LoadThread::Get(OwnedChain* chain, StoreClient& client) {
  const Oracle oracle = range_.OracleOf(*chain);
  bool certain = true;
  // A get ends at its first miss; each segment has a promise of its own, so it goes on behind it.
  for (size_t first = 0; first < oracle.size();) {
    const Moment begin = shared_->lives->Now();
    const Oracle::Load load = oracle.GetFrom(client, first, kTimeout);
    const size_t arrived = load.result.usable;
    shared_->verdicts->hits += arrived;
    shared_->verdicts->hit_bytes += arrived * chain->payload_bytes;
    for (size_t i = 0; i < arrived; ++i) (void)Judge(*chain, first + i, begin, {.hit = true});
    if (load.wrong > 0) Broken(*chain, first, "WRONG BYTES");
    first += arrived;
    if (first == oracle.size()) break;
    certain &= Judge(*chain, first, begin, {.miss = load.result.misses[arrived]});
    ++first;
  }
  return certain;
}

bool LoadThread::Judge(const OwnedChain& chain, size_t segment, Moment begin,
                       const Outcome& outcome) {
  Verdicts& verdicts = *shared_->verdicts;
  const Kind holds = range_.Holds(chain.promises[segment]);
  if (outcome.hit) {
    if (holds == Kind::kNone) Broken(chain, segment, "is there");
    if (holds == Kind::kPurged) Broken(chain, segment, "CAME BACK");
    if (holds == Kind::kDisk) ++verdicts.must_hits;
    return true;
  }
  const bool calm = begin.up && begin == shared_->lives->Now();
  if (!calm || IsNoAnswer(outcome.miss)) return false;
  if (outcome.miss == MissReason::kCorrupt) {
    Broken(chain, segment, "was found damaged, though only the process was killed");
  } else if (holds == Kind::kDisk && !shared_->variant.evicts) {
    Broken(chain, segment, "IS LOST: " + std::string(MissReasonName(outcome.miss)));
  } else if (holds == Kind::kMemory && shared_->variant.memory_keeps_all()) {
    Broken(chain, segment, "is lost without a crash: " + std::string(MissReasonName(outcome.miss)));
  } else if (holds == Kind::kPurged) {
    ++verdicts.purged_misses;
  } else if (holds != Kind::kNone) {
    ++verdicts.allowed_misses;
  }
  return true;
}

void LoadThread::Broken(const OwnedChain& chain, size_t segment, const std::string& what) {
  const Promise& promise = chain.promises[segment];
  shared_->verdicts->Broken(
      name_ + ": segment " + std::to_string(segment) + " of chain " + std::to_string(chain.seed) +
      " (" + std::to_string(chain.payload_bytes) + " bytes, " +
      std::string(NameOf(range_.Holds(promise))) + ", put in life " + std::to_string(promise.life) +
      ", now " + std::to_string(shared_->lives->Now().life) + ") " + what);
}

}  // namespace ember::testing
