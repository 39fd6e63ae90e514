// SPDX-License-Identifier: Apache-2.0
// F40: VF3 in the hands of a driver that sends whatever it likes, on memory that changes while the card reads it. Each
// round has two parts:
//   awaited    blocks, admin requests and control messages change under the card; rings and FIFOs do not. Each ends once,
//              typed.
//   unawaited  every word of the window that the card reads changes, descriptors, event words and FIFO words too. What comes
//              back says nothing then. The function still answers, and after status 0 it is as good as new.
#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shared/memory_order.hpp"
#include "tests/validation/campaign/management.hpp"
#include "tests/validation/campaign/raw_client.hpp"
#include "tests/validation/campaign/scenarios.hpp"
#include "tests/validation/raw/attempts.hpp"

namespace svp::campaign {

namespace {

using raw::RawDriver;
using wire::ControlBlock;
using wire::FunctionState;
using wire::Message;
using wire::MessageOp;
using wire::Outcome;
using wire::Status;

constexpr unsigned kRounds = 2;
constexpr unsigned kBursts = 24;  // of each kind in a round
constexpr unsigned kBlocksAtOnce = 32, kRequestsAtOnce = 4, kMessagesAtOnce = 4;
constexpr unsigned kUnawaited = 200;            // of each kind in a round
constexpr std::uint64_t kFewestChanges = 3000;  // in a round's unawaited part

constexpr wire::Target kFuzzed = wire::target_of_virtual(kThird);

// ---- memory that changes --------------------------------------------------------------------------------------------

struct Place {
  const char* name;
  wire::Block block;
};
// What is read and belongs to one attempt.
constexpr Place kContents[] = {{"control blocks", wire::kControlBlocks},
                               {"admin requests", wire::kAdminRequests},
                               {"host memory", {wire::kHostMemoryOffset, 4 * wire::kMiB}}};
// All that the card reads; the parts that are in use, so that words are hit that matter.
constexpr Place kEverything[] = {
    {"rings", {wire::kQueueBlock.offset, 8 * wire::kKiB}},
    {"rings", {wire::kQueueLayouts[wire::kControlBlockQueue].descriptors, 16 * wire::kKiB}},
    {"rings", {wire::kQueueLayouts[wire::kControlBlockQueue].driver_area, 256}},
    {"control blocks", {wire::kControlBlocks.offset, 8 * wire::kKiB}},
    {"admin requests", wire::kAdminRequests},
    {"FIFOs", wire::kFifoToCard},
    {"FIFOs", wire::kFifoToHost},
    {"host memory", {wire::kHostMemoryOffset, 64 * wire::kKiB}}};
// The words by which a driver finds back into step, each written by the card alone and never read by it.
constexpr std::uint64_t kKept[] = {wire::kFifoToCard.offset + offsetof(wire::Fifo, read),
                                   wire::kFifoToHost.offset + offsetof(wire::Fifo, written)};

class Mutator {
 public:
  Mutator(std::span<std::byte> window, std::span<const Place> places, std::uint64_t seed)
      : window_(window), places_(places), thread_([this, seed](const std::stop_token& stop) {
          std::mt19937_64 random(seed);
          while (!stop.stop_requested()) {
            change(random);
            changes_.fetch_add(1, std::memory_order_release);
            if (random() % 16 == 0) std::this_thread::yield();
          }
        }) {}
  std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

 private:
  void change(std::mt19937_64& random) {
    const wire::Block& block = places_[random() % places_.size()].block;
    const std::uint64_t at = block.offset + random() % (block.bytes / 8) * 8;
    if (std::ranges::any_of(kKept, [&](std::uint64_t kept) { return at == kept / 8 * 8; })) return;
    auto& word = *reinterpret_cast<std::uint64_t*>(window_.data() + at);
    const std::uint64_t old = wire::load_relaxed(word);
    switch (random() % 4) {
      case 0: return wire::store_relaxed(word, std::uint64_t{random()});
      case 1: return wire::store_relaxed(word, old ^ std::uint64_t{1} << random() % 64);
      case 2: return wire::store_relaxed(word, std::uint64_t{random() % 256});
      default: return wire::store_relaxed(word, old ^ std::uint64_t{0x8080} << 48);  // AVAIL and USED of a descriptor
    }
  }

  std::span<std::byte> window_;
  std::span<const Place> places_;
  std::atomic<std::uint64_t> changes_{0};
  std::jthread thread_;  // bounded: it looks at its stop token between two stores
};

// ---- attempts -------------------------------------------------------------------------------------------------------

struct FuzzCounts {
  std::uint64_t blocks = 0, requests = 0, messages = 0, refused = 0, executed = 0, changes = 0, unawaited = 0;
  std::string wrong;       // of what had to end once, typed
  std::string not_healed;  // of the function after status 0
  std::string no_answer;   // of the function behind the changes
  void keep(std::string& first, std::string now) const {
    if (first.empty()) first = std::move(now);
  }
};

class Fuzzer {
 public:
  Fuzzer(ScenarioContext& context, RawClient& client, FuzzCounts& counts, std::uint64_t seed)
      : context_(context),
        client_(client),
        driver_(client.driver()),
        counts_(counts),
        targets_(targets()),
        attempts_(targets_, seed),
        seed_(seed) {
    while (streams_.size() < kBlocksAtOnce) streams_.push_back(driver_.open_stream().value());
  }

  void awaited() {
    const Mutator mutator(driver_.window(), kContents, seed_);
    for (unsigned burst = 0; burst < kBursts && counts_.wrong.empty(); ++burst) {
      try {
        blocks();
        requests();
        messages();
      } catch (const raw::Broken& broken) {
        counts_.wrong = broken.what();
      }
    }
    counts_.changes += mutator.changes();
  }

  void unawaited() {
    const Mutator mutator(driver_.window(), kEverything, seed_ + 1);
    const auto limit = ScenarioContext::Clock::now() + context_.timeout();
    for (unsigned done = 0;
         done < kUnawaited || (mutator.changes() < kFewestChanges && ScenarioContext::Clock::now() < limit); ++done) {
      publish(wire::kControlBlockQueue, wire::kControlBlocks.offset, wire::kControlBlockSlotBytes,
              attempts_.control_block(streams_[attempts_.below(kBlocksAtOnce)]), wire::kCompletions.offset);
      const ControlBlock entry = attempts_.entry();
      wire::store_shared_words(
          driver_.at<std::uint64_t>(raw::Attempts::entries() + attempts_.below(raw::Attempts::kEntries) * sizeof entry),
          reinterpret_cast<const std::uint64_t*>(&entry), sizeof entry / 8);
      publish(wire::kAdminQueue, wire::kAdminRequests.offset, wire::kStickBytes, attempts_.admin_request(),
              wire::kAdminReplies.offset);
      driver_.send(message());
      client_.slot().pump();
      ++counts_.unawaited;
    }
    counts_.changes += mutator.changes();
  }

 private:
  raw::Targets targets() {
    raw::Targets targets;
    targets.window_bytes = driver_.window().size();
    targets.generation = driver_.generation();
    targets.function_index = kThird;
    targets.functions = context_.scenario().shape.virtual_functions;
    targets.tensor = driver_.acquire(wire::kGranuleBytes).value();
    targets.program = driver_.acquire(wire::kGranuleBytes, wire::RegionType::Program).value();
    targets.released = driver_.acquire(wire::kGranuleBytes).value();
    (void)driver_.release(targets.released);
    for (const Region& region : context_.bystander().regions()) {
      targets.foreign.push_back({region.base.region_id, region.generation, region.bytes});
    }
    return targets;
  }

  // Behind its first bad block a stream is poisoned, and nothing is judged any more: each block has a stream of its
  // own, and a queue reset makes all of them new.
  bool renew_streams() {
    if (!driver_.reset_queue(wire::kControlBlockQueue)) return false;
    driver_.forget_blocks();
    for (raw::StreamHandle& stream : streams_) stream = {stream.id, stream.incarnation + 1, 1};
    return driver_.set_queue(wire::kControlBlockQueue);
  }
  // No wait for a stream of its own: without the budget, which changes under the card, it would rightly stand.
  ControlBlock block_that_ends(const raw::StreamHandle& stream) {
    for (;;) {  // bounded: by the draws
      const ControlBlock block = attempts_.control_block(stream);
      const bool granted = (block.payload.event.flags & wire::kEventGranted) != 0;
      if (block.header.opcode != wire::Opcode::EventWait || granted) return block;
    }
  }
  void blocks() {
    if (!renew_streams()) return counts_.keep(counts_.wrong, "the queue could not be reset");
    for (const raw::StreamHandle& stream : streams_) {
      const ControlBlock block = block_that_ends(stream);
      (void)driver_.submit_sticks(block, std::clamp<unsigned>(block.header.sticks, 1, wire::kMaxControlBlockSticks));
    }
    for (const raw::Ended& end : driver_.wait_for(kBlocksAtOnce)) {
      ++counts_.blocks;
      counts_.executed += end.completion.outcome == Outcome::Ok ? 1 : 0;
      typed(end.completion.outcome, end.completion.status);
    }
  }
  void requests() {
    std::array<std::uint16_t, kRequestsAtOnce> slots{};
    for (auto& slot : slots) slot = driver_.send_admin(attempts_.admin_request());
    for (const auto slot : slots) {
      const auto reply = driver_.wait_admin(slot);
      if (!reply) return counts_.keep(counts_.wrong, "an admin request was not answered");
      ++counts_.requests;
      typed(reply->outcome, reply->status);
    }
  }
  void messages() {
    std::array<bool, kMessagesAtOnce> answered{};
    for (unsigned i = 0; i < kMessagesAtOnce; ++i) {
      Message sent = message();
      sent.header.token = static_cast<std::uint16_t>(i);  // the answer has it
      driver_.send(sent);
    }
    unsigned missing = kMessagesAtOnce;
    const auto limit = ScenarioContext::Clock::now() + context_.timeout();
    for (; missing != 0 && ScenarioContext::Clock::now() < limit; driver_.pump()) {
      const auto answer = driver_.receive();
      if (!answer || (answer->header.type & wire::kMessageResponse) == 0) continue;
      const unsigned token = answer->header.token;
      if (token >= kMessagesAtOnce || std::exchange(answered[token], true)) {
        return counts_.keep(counts_.wrong, "a control message was answered twice");
      }
      --missing;
      ++counts_.messages;
      counts_.refused += answer->header.size == sizeof(wire::MessageHeader) ? 1 : 0;
    }
    if (missing != 0) counts_.keep(counts_.wrong, "a control message was not answered");
  }

  Message message() {
    Message made{};
    for (auto& byte : made.bytes) byte = static_cast<std::uint8_t>(attempts_.below(256));
    const auto some = [&](unsigned likely, unsigned usual) { return attempts_.below(likely) == 0 ? usual : 0; };
    made.header = {static_cast<std::uint8_t>(some(4, attempts_.below(8))),
                   static_cast<std::uint8_t>(attempts_.below(0x44)),
                   static_cast<std::uint16_t>(some(8, attempts_.below(0x10000))),
                   static_cast<std::uint16_t>(attempts_.below(0x10000)),
                   static_cast<std::uint16_t>(attempts_.below(attempts_.below(4) == 0 ? 0x10000 : 65))};
    return made;
  }

  void typed(Outcome outcome, Status status) {
    const bool known = outcome <= Outcome::Indeterminate && wire::name(status) != "unknown status";
    if (!known || (outcome == Outcome::Ok) != (status == Status::None)) {
      counts_.keep(counts_.wrong, "an attempt ended " + std::to_string(static_cast<unsigned>(outcome)) + ", status " +
                                      std::to_string(static_cast<unsigned>(status)));
    }
    counts_.refused += outcome == Outcome::Rejected ? 1 : 0;
  }

  // Into one of a few slots, whether it is free or not.
  template <typename Attempt>
  void publish(std::uint32_t queue, std::uint64_t at, std::uint64_t stride, const Attempt& attempt,
               std::uint64_t back) {
    const std::uint64_t slot = attempts_.below(8);
    wire::store_shared_words(driver_.at<std::uint64_t>(at + slot * stride),
                             reinterpret_cast<const std::uint64_t*>(&attempt), sizeof attempt / 8);
    const raw::RawBuffer chain[] = {{at + slot * stride, sizeof attempt, false},
                                    {back + slot * wire::kStickBytes, wire::kStickBytes, true}};
    driver_.ring(queue).add(static_cast<std::uint16_t>(slot), chain);
  }

  ScenarioContext& context_;
  RawClient& client_;
  RawDriver& driver_;
  FuzzCounts& counts_;
  raw::Targets targets_;
  raw::Attempts attempts_;
  std::uint64_t seed_;
  std::vector<raw::StreamHandle> streams_{{}};  // stream 0 is open from the start
};

// Its FIFOs may be full of what the card still answers.
void find_back_into_step(ScenarioContext& context, RawDriver& driver) {
  constexpr int kQuietLooks = 200;
  auto& to_card = *driver.at<wire::Fifo>(wire::kFifoToCard.offset);
  auto& to_host = *driver.at<wire::Fifo>(wire::kFifoToHost.offset);
  const auto limit = ScenarioContext::Clock::now() + context.timeout();
  for (int quiet = 0; quiet < kQuietLooks && ScenarioContext::Clock::now() < limit; driver.pump()) {
    const auto read = wire::load_acquire(to_card.read);
    quiet = wire::load_relaxed(to_card.written) == read ? quiet + 1 : 0;
    wire::store_release(to_card.written, read);
    wire::store_release(to_host.read, wire::load_acquire(to_host.written));
  }
}

bool answers(ScenarioContext& context, RawDriver& driver) {
  const Message request = driver.bare_request(MessageOp::GetDeviceStatus);
  driver.send(request);
  const auto limit = ScenarioContext::Clock::now() + context.timeout();
  for (; ScenarioContext::Clock::now() < limit; driver.pump()) {
    const auto answer = driver.receive();
    const bool ours = answer && answer->header.token == request.header.token;
    if (ours && (answer->header.type & wire::kMessageResponse) != 0) return true;
  }
  return false;
}

// It answers, and the card says that it runs, is idle, or needs a reset: nothing is stuck half way.
std::string stands(ScenarioContext& context, RawClient& client) {
  find_back_into_step(context, client.driver());
  // A driver that goes on reading where the card writes now; the old one's place is far behind.
  RawDriver& driver = client.driver();
  driver = RawDriver(client.slot().window(), [&] { client.slot().pump(); });
  if (!answers(context, driver)) return "it does not answer control messages any more";
  const auto limit = ScenarioContext::Clock::now() + context.timeout();
  FunctionState state = FunctionState::Resetting;
  while (state == FunctionState::Resetting && ScenarioContext::Clock::now() < limit) {
    state = figures_of(context.management(), kFuzzed).state;
  }
  const bool rests = state == FunctionState::Running || state == FunctionState::Idle;
  return rests ? std::string() : "it is " + std::string(wire::name(state));
}

void fuzz(ScenarioContext& context, std::uint64_t seed, FuzzCounts& counts) {
  RawClient client(context);
  if (!client.driver().bring_up()) return counts.keep(counts.not_healed, "the function does not come up");
  Fuzzer fuzzer(context, client, counts, seed);
  fuzzer.awaited();
  fuzzer.unawaited();
  counts.keep(counts.no_answer, stands(context, client));
}

// What the card says of the others.
std::vector<std::uint64_t> others(Device& management) {
  std::vector<std::uint64_t> words;
  for (const wire::Target target : {wire::kTargetPhysical, wire::target_of_virtual(kBystander)}) {
    const auto figures = figures_of(management, target);
    words.insert(words.end(), {figures.generation, figures.resets, figures.violations, figures.granted_bytes,
                               static_cast<std::uint64_t>(figures.state)});
  }
  return words;
}

const wire::WindowHeader& header_of(const Device& device) {
  return *reinterpret_cast<const wire::WindowHeader*>(device.host_memory().data() - device.host_memory_offset());
}

}  // namespace

void fuzzing_under_mutation(ScenarioContext& context) {
  context.bystander();
  Device& management = context.management();
  const auto standing = others(management);
  const std::uint64_t epoch = wire::load_relaxed(header_of(management).boot_epoch);
  const std::uint64_t beat = wire::load_relaxed(header_of(management).heartbeat);
  FuzzCounts counts;
  context.trigger();
  for (unsigned round = 0; round < kRounds && counts.not_healed.empty() && counts.no_answer.empty(); ++round) {
    try {
      fuzz(context, context.seed() * kRounds + round, counts);
      RawClient next(context);
      counts.keep(counts.not_healed, next.works());
    } catch (const std::exception& error) {
      counts.not_healed = error.what();  // M does not answer, or the card has been restarted
    }
  }
  const auto number = [](std::uint64_t count) { return std::to_string(count); };
  context.claim(Proof::Fired, "blocks", counts.executed != 0 && counts.refused != 0,
                number(counts.executed) + " executed, " + number(counts.refused) + " refused");
  context.claim(Proof::Fired, "admin requests", counts.requests != 0);
  context.claim(Proof::Fired, "control messages", counts.messages != 0);
  context.claim(Proof::Fired, "rings and FIFOs", counts.unawaited >= kUnawaited && counts.changes >= kFewestChanges,
                number(counts.changes) + " words changed");
  context.claim(Proof::Detected, "exactly once", counts.wrong.empty(), counts.wrong);
  context.claim(Proof::Detected, "still answers", counts.no_answer.empty(), counts.no_answer);
  // A boot that nobody asked for has another epoch; a heartbeat that stands still ends the wait for the next beat.
  const auto limit = ScenarioContext::Clock::now() + context.timeout();
  while (wire::load_relaxed(header_of(management).heartbeat) == beat && ScenarioContext::Clock::now() < limit) {
    std::this_thread::yield();
  }
  context.claim(Proof::Contained, "heartbeat",
                wire::load_relaxed(header_of(management).boot_epoch) == epoch &&
                    wire::load_relaxed(header_of(management).heartbeat) != beat);
  context.claim(Proof::Contained, "standing", others(management) == standing,
                "a generation or a counter of another function changed");
  context.contained();
  context.claim(Proof::Recovered, "as good as new", counts.not_healed.empty(), counts.not_healed);
}

}  // namespace svp::campaign
