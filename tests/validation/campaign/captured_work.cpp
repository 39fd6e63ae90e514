// SPDX-License-Identifier: Apache-2.0
// F41: command buffers of a tenant (CALL, PREPARED, PATCH) when a kernel in the middle of one faults, when their
// regions and images change, and when the tenant's function is reset. Another tenant replays buffers of its own
// meanwhile.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/support/command_buffers.hpp"
#include "tests/validation/campaign/kernel_jobs.hpp"
#include "tests/validation/campaign/management.hpp"
#include "tests/validation/campaign/scenarios.hpp"
#include "tests/validation/campaign/standing.hpp"

namespace svp::campaign {

namespace {

using test::call_of;
using test::CardBufferName;
using wire::ControlBlock;
using wire::FaultAction;
using wire::FaultPoint;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

constexpr wire::Target kReplaying = wire::target_of_virtual(kThird);

// In the host memory of each tenant: what a buffer is made of, what a block is replaced by, what is read back.
constexpr std::uint64_t kSourceAt = 4 * wire::kMiB, kPatchAt = 5 * wire::kMiB, kReadAt = 6 * wire::kMiB;

CardBufferName buffer_of(Device& device, std::span<const ControlBlock> blocks) {
  const auto reply = test::create_buffer(device, blocks, kSourceAt);
  if (reply.outcome == Outcome::Ok) return reply.values.buffer;
  throw Error({.layer = Layer::Firmware,
               .source = "command buffer",
               .outcome = reply.outcome,
               .recoverable = true,
               .next_step = "correct the scenario",
               .message = "a good command buffer was refused: " + std::string(wire::name(reply.status)),
               .status = reply.status});
}

bool ended_ok(const std::optional<wire::Completion>& end) { return end && end->outcome == Outcome::Ok; }

// ---- the other tenant -----------------------------------------------------------------------------------------------

// VF3: a replay that waits at its gate from the constructor to open_gate(), short ones beside it, and memory with a
// pattern.
class Replayer {
 public:
  explicit Replayer(ScenarioContext& context);
  ~Replayer() {
    context_.keep_trace(short_);
    context_.keep_trace(gated_);
  }
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;

  // Empty: it ended OK, and its data is right.
  std::string replay();
  std::string open_gate();
  std::string check_memory();
  bool waits_at_gate() const { return gated_.ended() == 0; }
  // Of a buffer whose number no other tenant has.
  const CardBufferName& name() const { return short_buffer_; }

 private:
  static constexpr std::uint64_t kBytes = 64 * wire::kKiB;
  static constexpr std::uint64_t kOut = 0, kBack = wire::kMiB, kGatedBack = 2 * wire::kMiB;  // host
  static constexpr std::uint64_t kIn = 0, kResult = wire::kMiB, kGate = 2 * wire::kMiB;      // Tensor region
  static constexpr std::uint64_t kPattern = 0xF41F'41F4'1F41'F41F;
  static constexpr unsigned kNumbersBefore = 32;

  CardBufferName gated_buffer();
  CardBufferName short_buffer();

  ScenarioContext& context_;
  std::unique_ptr<Device> device_;
  BlockBuilder builder_;
  TestStream short_, gated_;
  Region memory_;
  CardBufferName short_buffer_{};
};

Replayer::Replayer(ScenarioContext& context)
    : context_(context),
      device_(context.open(kThird)),
      builder_(*device_),
      short_(*device_),
      gated_(*device_),
      memory_(value_or_throw(device_->acquire_region(RegionType::Tensor, 2 * wire::kMiB))) {
  const std::array prepared{BlockBuilder::fill(endpoint_of(memory_), 2 * wire::kMiB, kPattern),
                            BlockBuilder::fill(builder_.tensor(kGate), wire::kStickBytes, 0),
                            BlockBuilder::fill(builder_.tensor(kIn), kBytes, kPattern)};
  (void)short_.submit(prepared);
  (void)short_.wait_all(context.timeout());
  for (unsigned i = 0; i < kNumbersBefore; ++i) (void)buffer_of(*device_, std::array{BlockBuilder::nop()});
  short_buffer_ = short_buffer();
  (void)gated_.submit(call_of(gated_buffer()));
  (void)gated_.wait_started(1, context.timeout());
}

CardBufferName Replayer::gated_buffer() {
  const std::array symbols{address_symbol(0, builder_.tensor(), kIn), address_symbol(1, builder_.tensor(), kResult),
                           address_symbol(2, builder_.tensor(), kGate),
                           dimension_symbol(0, kBytes / sizeof(std::uint64_t))};
  const ControlBlock kernel = load_kernel(builder_, short_, context_.card(), "gated", 0, symbols);
  return buffer_of(*device_,
                   std::array{BlockBuilder::fill(builder_.tensor(kResult), kBytes, 0), kernel,
                              BlockBuilder::dma(builder_.tensor(kResult), builder_.host(kGatedBack), kBytes)});
}

// The kernel between the two copies is there to be launched.
CardBufferName Replayer::short_buffer() {
  const std::uint64_t scratch = 3 * wire::kMiB;
  const ControlBlock kernel = load_kernel(builder_, short_, context_.card(), "empty", wire::kMiB);
  return buffer_of(*device_,
                   std::array{BlockBuilder::dma(builder_.host(kOut), builder_.tensor(scratch), kBytes), kernel,
                              BlockBuilder::dma(builder_.tensor(scratch), builder_.host(kBack), kBytes)});
}

std::string Replayer::replay() {
  const auto out = builder_.host_words(kOut, kBytes), back = builder_.host_words(kBack, kBytes);
  for (auto& word : out) word = context_.random()();
  std::ranges::fill(back, 0);
  const auto end = short_.run(call_of(short_buffer_), context_.timeout());
  if (!ended_ok(end)) return "a replay of another function: " + ending(end);
  return std::ranges::equal(out, back) ? std::string() : "the data of a replay came back wrong";
}

std::string Replayer::open_gate() {
  const auto opened = short_.run(BlockBuilder::fill(builder_.tensor(kGate), wire::kStickBytes, 1), context_.timeout());
  if (!ended_ok(opened)) return "the gate does not open";
  if (!gated_.wait_all(context_.timeout())) return "the replay did not end";
  const auto ends = gated_.endings();
  if (ends.size() != 1 || ends[0].outcome != Outcome::Ok) return "the replay: " + ending(ends.back());
  const bool right =
      std::ranges::all_of(builder_.host_words(kGatedBack, kBytes), [](auto word) { return word == kPattern; });
  return right ? std::string() : "the replay's result is wrong";
}

std::string Replayer::check_memory() {
  constexpr std::uint64_t kWhole = 2 * wire::kMiB;
  const auto read =
      short_.run(BlockBuilder::dma(endpoint_of(memory_), builder_.host(kReadAt), kWhole), context_.timeout());
  if (!ended_ok(read)) return "its memory cannot be read";
  const bool whole =
      std::ranges::all_of(builder_.host_words(kReadAt, kWhole), [](auto word) { return word == kPattern; });
  return whole ? std::string() : "its memory changed";
}

// ---- the tenant under faults ----------------------------------------------------------------------------------------

constexpr std::uint64_t kFirst = 0, kBehind = 64 * wire::kKiB;  // in its Tensor region
constexpr std::uint64_t kBefore = 1, kMark = 0xCA97'04ED, kOther = 0xBAD'CA11;

class CapturedWork {
 public:
  explicit CapturedWork(ScenarioContext& context)
      : context_(context), builder_(context.builder()), stream_(context.stream()) {
    fill(kFirst, kBefore);
    fill(kBehind, kBefore);
  }

  void kernel_faults_in_the_middle();
  void image_changes();
  void region_goes();
  void wrong_names(const CardBufferName& foreign);
  void patches();
  void reset_while_judged();
  void stop_in_the_middle();
  // A replay under way and two behind it, for the reset of the function.
  bool replay_into_reset();
  void ended_by_reset();
  const CardBufferName& name() const { return first_; }

 private:
  CardBufferName make(std::span<const ControlBlock> blocks) {
    const CardBufferName made = buffer_of(context_.faulting(), blocks);
    if (first_.epoch == 0) first_ = made;
    return made;
  }
  std::optional<wire::Completion> run(const ControlBlock& block) { return stream_.run(block, context_.timeout()); }
  ControlBlock filling(std::uint64_t offset, std::uint64_t value) const {
    return BlockBuilder::fill(builder_.tensor(offset), wire::kStickBytes, value);
  }
  void fill(std::uint64_t offset, std::uint64_t value) { (void)run(filling(offset, value)); }
  // Of the Tensor region; a stream that failed is reset first.
  std::uint64_t word(std::uint64_t offset) {
    const auto read = run(BlockBuilder::dma(builder_.tensor(offset), builder_.host(kReadAt), wire::kStickBytes));
    return ended_ok(read) ? builder_.host_words(kReadAt, wire::kStickBytes)[0] : 0;
  }
  // One claim: how the block ended, and with which block of its buffer. The stream is usable afterwards.
  void expect(std::string_view claim, const ControlBlock& block, Outcome outcome, Status status, std::uint32_t index);
  void refused(std::string_view claim, const ControlBlock& block, Status status, std::uint32_t index = 0) {
    expect(claim, block, Outcome::Rejected, status, index);
  }
  CardBufferName endless() {
    return make(std::array{filling(kFirst, kMark), context_.kernel("spin", kManySlices), filling(kBehind, kOther)});
  }

  ScenarioContext& context_;
  BlockBuilder& builder_;
  TestStream& stream_;
  CardBufferName first_{};
  std::vector<std::unique_ptr<TestStream>> judged_;  // of resets of calls that were judged. Kept, like `stopped_`
  // by the reset of the stream. Kept: one that misses a block cannot be closed
  std::unique_ptr<TestStream> stopped_;
  std::unique_ptr<TestStream> reset_;  // by the function's reset
};

void CapturedWork::expect(std::string_view claim, const ControlBlock& block, Outcome outcome, Status status,
                          std::uint32_t index) {
  const auto end = run(block);
  const bool right = end && end->outcome == outcome && end->status == status && end->block == index;
  const std::string where = end ? ", block " + std::to_string(end->block) : std::string();
  context_.claim(Proof::Detected, claim, right, ending(end) + where);
  if (!ended_ok(end)) (void)stream_.reset();
}

void CapturedWork::kernel_faults_in_the_middle() {
  const auto buffer =
      make(std::array{filling(kFirst, kMark), context_.kernel("empty", kManySlices), filling(kBehind, kOther)});
  const auto fault = context_.arm(ScenarioContext::fault_at_faulting(FaultPoint::Kernel, FaultAction::Stray));
  expect("faulting block", call_of(buffer), Outcome::Fault, Status::LoadFault, 1);
  context_.fired(fault);
  context_.disarm(fault);
  context_.claim(Proof::Contained, "behind the fault", word(kFirst) == kMark && word(kBehind) == kBefore);
}

// The card has loaded the image for an earlier launch: what it finds in memory now counts.
void CapturedWork::image_changes() {
  const ControlBlock kernel = context_.kernel("empty");
  const ControlBlock damage = BlockBuilder::fill(kernel.payload.compute.image, wire::kStickBytes, 0);
  const auto prepared = make(std::array{kernel});
  const auto good = run(call_of(prepared, Opcode::Prepared));
  const auto damaged = run(damage);
  context_.fired(ended_ok(good) && ended_ok(damaged), "an image was run, and overwritten");
  refused("overwritten image", call_of(prepared, Opcode::Prepared), Status::ImageMagic);
  const ControlBlock other = context_.kernel("empty");
  const auto call = make(std::array{other, BlockBuilder::fill(other.payload.compute.image, wire::kStickBytes, 0), other,
                                    filling(kBehind, kOther)});
  expect("half a call", call_of(call), Outcome::Fault, Status::ImageMagic, 2);
}

void CapturedWork::region_goes() {
  const Region region = value_or_throw(context_.faulting().acquire_region(RegionType::Tensor, 2 * wire::kMiB));
  const std::array blocks{filling(kFirst, kOther), BlockBuilder::fill(endpoint_of(region), wire::kStickBytes, kOther)};
  const auto buffer = make(blocks);
  const auto good = run(call_of(buffer));
  fill(kFirst, kBefore);
  value_or_throw(context_.faulting().release_region(region));
  context_.fired(ended_ok(good), "a region that a buffer uses was released");
  refused("released region", call_of(buffer), Status::UnknownRegion, 1);
  context_.claim(Proof::Contained, "nothing of it began", word(kFirst) == kBefore);
  const auto again = test::create_buffer(context_.faulting(), blocks, kSourceAt);
  context_.claim(Proof::Detected, "made of a released region",
                 again.outcome == Outcome::Rejected && again.status == Status::UnknownRegion, ok_or_reason(again));
}

void CapturedWork::wrong_names(const CardBufferName& foreign) {
  refused("foreign buffer", call_of(foreign), Status::UnknownCommandBuffer);
  const auto two = make(std::array{BlockBuilder::nop(), BlockBuilder::nop()});
  refused("PREPARED of several", call_of(two, Opcode::Prepared), Status::BadOpcode);
  (void)test::destroy_buffer(context_.faulting(), two);
  refused("destroyed buffer", call_of(two), Status::UnknownCommandBuffer);
}

void CapturedWork::patches() {
  Device& device = context_.faulting();
  const auto buffer = make(std::array{filling(kFirst, kBefore)});
  const auto read = [&](std::uint64_t at) {
    return BlockBuilder::dma(builder_.tensor(kFirst), builder_.host(kReadAt + at), wire::kStickBytes);
  };
  const std::array blocks{call_of(buffer), read(0), test::patch_of(device, buffer, 0, filling(kFirst, kMark), kPatchAt),
                          call_of(buffer), read(wire::kStickBytes)};
  const std::size_t before = stream_.ended();
  (void)stream_.submit(blocks);
  (void)stream_.wait_all(context_.timeout());
  const auto ends = stream_.endings(before);
  const auto words = builder_.host_words(kReadAt, 2 * wire::kStickBytes);
  const bool all_ok =
      ends.size() == blocks.size() && std::ranges::all_of(ends, [](const auto& end) { return ended_ok(end); });
  context_.claim(Proof::Contained, "patched in order",
                 all_ok && words[0] == kBefore && words[wire::kStickBytes / 8] == kMark);
  const wire::Endpoint nowhere{~std::uint64_t{0} >> 1, 0, 1, wire::EndpointKind::Region, {}};
  refused("patch of nowhere",
          test::patch_of(device, buffer, 0, BlockBuilder::fill(nowhere, wire::kStickBytes, kOther), kPatchAt),
          Status::UnknownRegion);
  refused("patch of another kind", test::patch_of(device, buffer, 0, BlockBuilder::nop(), kPatchAt), Status::BadOpcode);
  fill(kFirst, kBefore);
  const bool ran = ended_ok(run(call_of(buffer)));
  if (!ran) (void)stream_.reset();
  context_.claim(Proof::Contained, "refused patches", ran && word(kFirst) == kMark,
                 "a buffer whose patch was refused is not what it was");
}

// A region has come since the buffer was judged: a CALL judges all of its blocks again, which takes several quanta, and
// is reset meanwhile. Chance decides whether its first block begins before; tried until it has not.
void CapturedWork::reset_while_judged() {
  constexpr unsigned kMostTries = 100;
  const std::array levels{wire::StridedLevel{16, 8, 8}};
  const ControlBlock nest = BlockBuilder::strided(builder_.tensor(kFirst), builder_.tensor(kBehind), 8, levels);
  const auto buffer = make(std::vector<ControlBlock>(wire::kMaxBufferBlocks, nest));
  bool unbegun = false;
  std::string wrong;
  for (unsigned tries = 0; tries < kMostTries && !unbegun && wrong.empty(); ++tries) {
    const Region region = value_or_throw(context_.faulting().acquire_region(RegionType::Tensor, wire::kGranuleBytes));
    auto& stream = *judged_.emplace_back(std::make_unique<TestStream>(context_.faulting()));
    (void)stream.submit(call_of(buffer));
    const auto reset = stream.reset();
    const auto ends = stream.endings();
    if (!reset || ends.size() != 1) {
      wrong = std::to_string(ends.size()) + " endings";
    } else if (ends[0].start_time == 0) {
      unbegun = true;
      if (ends[0].outcome != Outcome::Aborted || ends[0].status != Status::Stopped) wrong = ending(ends[0]);
    }
    value_or_throw(context_.faulting().release_region(region));
  }
  context_.fired(unbegun || !wrong.empty(), "a call was reset while it was judged");
  context_.claim(Proof::Detected, "reset while judged", wrong.empty(), wrong);
}

void CapturedWork::stop_in_the_middle() {
  const auto buffer = endless();
  stopped_ = std::make_unique<TestStream>(context_.faulting());
  (void)stopped_->submit(call_of(buffer));
  const bool begun = stopped_->wait_started(1, context_.timeout());
  refused("patch under a call", test::patch_of(context_.faulting(), buffer, 2, filling(kBehind, kOther), kPatchAt),
          Status::Busy);
  const auto stopped = stopped_->reset();
  const auto ends = stopped_->endings();
  context_.fired(begun, "a replay was stopped");
  const bool once = stopped && ends.size() == 1 && ends[0].outcome == Outcome::Fault &&
                    ends[0].status == Status::Stopped && ends[0].block == 1;
  context_.claim(Proof::Detected, "stopped replay", once, std::to_string(ends.size()) + " endings");
}

bool CapturedWork::replay_into_reset() {
  reset_ = std::make_unique<TestStream>(context_.faulting());
  const auto buffer = endless();
  (void)reset_->submit(std::array{call_of(buffer), call_of(buffer), call_of(first_)});
  return reset_->wait_started(1, context_.timeout());
}

void CapturedWork::ended_by_reset() {
  const bool told = told_of_reset(context_, context_.faulting(), *reset_);
  context_.claim(Proof::Detected, "typed", told, "a replay of the function that was reset never ended");
  const auto ends = reset_->endings();
  const bool none_ok = std::ranges::none_of(ends, [](const auto& end) { return ended_ok(end); });
  context_.claim(Proof::Detected, "each ended once", !told || (ends.size() == reset_->submitted() && none_ok));
  for (auto* stream : {&stopped_, &reset_}) {
    context_.keep_trace(**stream);
    stream->reset();
  }
  judged_.clear();
}

// ---- the next owner of the function that was reset ------------------------------------------------------------------

// The numbers of its buffers begin anew, their epochs do not.
void stale_names(ScenarioContext& context, const CardBufferName& before) {
  const auto run = [&](const ControlBlock& block) { return context.stream().run(block, context.timeout()); };
  const auto refused = [&](std::string_view claim, Status status) {
    const auto end = run(call_of(before));
    context.claim(Proof::Detected, claim, end && end->outcome == Outcome::Rejected && end->status == status,
                  ending(end));
    (void)context.stream().reset();
  };
  refused("buffer of a function that was reset", Status::UnknownCommandBuffer);
  const auto now = buffer_of(context.faulting(), std::array{BlockBuilder::nop()});
  refused("stale buffer", Status::StaleCommandBuffer);
  const auto good = run(call_of(now));
  context.fired(ended_ok(good), "a buffer of the next owner runs");
}

}  // namespace

void captured_work_under_faults(ScenarioContext& context) {
  context.bystander();
  Replayer other(context);
  Device& management = context.management();
  std::string replays = other.replay();
  const auto others = {wire::kTargetPhysical, kNeighbour, kReplaying};
  const auto before = standings(management, others);
  const std::uint64_t pages = pool_figures(management).arena_pages,
                      resets = standing_of(management, kFaultingTarget).resets;
  const auto replayed = [&] {
    if (std::string wrong = other.replay(); replays.empty()) replays = std::move(wrong);
  };
  CardBufferName stale{};
  context.trigger();
  {
    CapturedWork work(context);
    work.kernel_faults_in_the_middle();
    replayed();
    work.image_changes();
    work.region_goes();
    work.wrong_names(other.name());
    replayed();
    work.patches();
    work.reset_while_judged();
    work.stop_in_the_middle();
    const bool running = work.replay_into_reset();
    const auto reply = manage(management, wire::AdminCommand::FunctionReset, kFaultingTarget);
    replayed();
    const std::uint64_t done = standing_of(management, kFaultingTarget).resets - resets;
    context.fired(running && done != 0, "a reset under replays");
    context.claim(Proof::Detected, "answered", reply.outcome == Outcome::Ok, ok_or_reason(reply));
    const std::uint64_t left = pool_figures(management).arena_pages;
    context.claim(Proof::Contained, "uncharged", left == pages,
                  std::to_string(left) + " pages of the card are held, it was " + std::to_string(pages));
    work.ended_by_reset();
    stale = work.name();
  }
  context.close_faulting();
  context.claim(Proof::Contained, "standing", standings(management, others) == before,
                "a generation or a counter of another function changed");
  stale_names(context, stale);
  replayed();
  const bool waits = other.waits_at_gate();
  const std::string gated = other.open_gate();
  context.claim(Proof::Contained, "replay in flight", waits && gated.empty(), gated);
  context.claim(Proof::Contained, "replays of another function", replays.empty(), replays);
  const std::string memory = other.check_memory();
  context.claim(Proof::Contained, "memory of another function", memory.empty(), memory);
  context.contained();
  context.recover_function();
}

}  // namespace svp::campaign
