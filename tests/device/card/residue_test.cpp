// SPDX-License-Identifier: Apache-2.0
// Nothing of an earlier kernel is left for the next one, on either core, in any context, whichever way the earlier one
// ended (protocol §7, §9). What holds:
//   other functions, and later owners of the same function: registers, stack, scratchpad and the rest of the kernel's own
//   pages are zero
//   later launches of the same owner: registers are zero; memory of the context may still hold what it left there itself
// The kernels dirty and residue (firmware/kernels) leave and look.
#include <algorithm>
#include <cstring>

#include "tests/device/card/card_support.hpp"
#include "tests/support/admin_requests.hpp"

namespace svp {
namespace {

using test::CompletionRecorder;
using test::Workbench;
using wire::Outcome;
using wire::Status;

constexpr unsigned kContexts = 4;  // of a function on a core: one launch each
constexpr std::uint64_t kBothCores = 3;
constexpr std::uint64_t kResidueAt = 0, kDirtyAt = 256 * wire::kKiB, kCorrectionsAt = 1 * wire::kMiB;  // Program region
constexpr std::uint64_t kFlagStride = 4096, kGateAt = 1024;                                            // Tensor region
constexpr std::uint64_t kReadBack = 0;                                                                 // host memory

// What residue.cpp finds, as it says it.
enum Found : std::uint64_t {
  kInteger = 1,
  kFloating = 2,
  kFloatControl = 4,
  kVector = 8,
  kVectorControl = 16,
  kReservation = 32,
  kStack = 64,
  kScratchpad = 128,
  kOtherPages = 256,
};
constexpr std::uint64_t kMemory = kStack | kScratchpad | kOtherPages;
constexpr unsigned kPlaceShift = 12;
constexpr std::uint64_t kKinds = (std::uint64_t{1} << kPlaceShift) - 1;

std::string text_of(std::uint64_t status) {
  constexpr const char* kNames[] = {
      "x registers",   "f registers", "fcsr",       "v registers", "vstart, vl, vtype or vcsr",
      "a reservation", "stack",       "scratchpad", "other pages"};
  std::string text = "found";
  for (unsigned i = 0; i < std::size(kNames); ++i) {
    if ((status >> i & 1) != 0) text.append(" [").append(kNames[i]).append("]");
  }
  return text + ", the first at " + std::to_string(status >> kPlaceShift);
}

// As dirty.cpp numbers them.
enum class Dirt : std::uint64_t { WaitAtGate, Illegal, VectorFloatFlags, PartialLoad };

// The owner of a function, with both kernels and a stream for each context.
class Owner {
 public:
  Owner(const Card& card, std::unique_ptr<Device> device)
      : device_(std::move(device)),
        bench_(*device_),
        residue_(test::kernel_image(card, "residue")),
        dirty_(test::kernel_image(card, "dirty")) {
    bench_.load(kResidueAt, residue_);
    bench_.load(kDirtyAt, dirty_);
    for (auto& stream : streams_) stream = value_or_throw(device_->open_stream(StreamPriority::Low));
  }

  Device& device() const { return *device_; }

  // Residue in several contexts at once, on the first streams; the kinds of things found, by all of them.
  std::uint64_t look(std::uint64_t core_mask, unsigned launches = kContexts) const {
    const auto block = bench_.compute(kResidueAt, residue_.size(), core_mask);
    std::array<CompletionRecorder, kContexts> ends;
    for (unsigned i = 0; i < launches; ++i) submit(i, block, ends[i]);
    std::uint64_t found = 0;
    for (unsigned i = 0; i < launches; ++i) {
      const auto end = wait(ends[i]);
      if (end.outcome == Outcome::Ok) continue;
      EXPECT_EQ(end.status, Status::KernelStatus) << wire::name(end.status);
      found |= end.fault.argument & kKinds;
      if ((end.fault.argument & kKinds & ~kMemory) != 0) {
        ADD_FAILURE() << "core " << end.fault.core << ", stream " << i << ": " << text_of(end.fault.argument);
      }
      value_or_throw(device_->reset_stream(streams_[i]));
    }
    return found;
  }
  void expect_nothing_found() const {
    for (const std::uint64_t core_mask : {kBothCores, std::uint64_t{1}, std::uint64_t{2}}) {
      const std::uint64_t found = look(core_mask);
      EXPECT_EQ(found, 0u) << "core mask " << core_mask << ": " << text_of(found);
    }
  }
  void expect_clean_registers(unsigned launches = kContexts) const {
    for (const std::uint64_t core_mask : {kBothCores, std::uint64_t{1}, std::uint64_t{2}}) {
      EXPECT_EQ(look(core_mask, launches) & ~kMemory, 0u) << "core mask " << core_mask;
    }
  }

  // In all contexts of both cores; returns when each has filled everything and spins with all registers in use.
  void dirty_everything() {
    must_end_ok(Workbench::fill(bench_.tensor(0), kContexts * kFlagStride, 0));
    for (unsigned i = 0; i < kContexts; ++i) submit(i, dirty(i, Dirt::WaitAtGate, kBothCores), dirty_ends_[i]);
    const auto limit = test::soon();
    while (!all_flags_are_set()) {
      if (Device::Clock::now() > limit) throw std::runtime_error("the dirtying kernels do not come to their gates");
    }
  }
  // Lets the first `count` of them exit.
  void let_end(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      must_end_ok(Workbench::fill(bench_.tensor(i * kFlagStride + kGateAt), 128, 1));
      EXPECT_EQ(wait(dirty_ends_[i]).outcome, Outcome::Ok);
    }
  }
  // One launch, with its gate open: it fills everything and exits.
  void dirty_and_exit(std::uint64_t core_mask) const {
    must_end_ok(Workbench::fill(bench_.tensor(kGateAt), 128, 1));
    CompletionRecorder ends;
    submit(0, dirty(0, Dirt::WaitAtGate, core_mask), ends);
    EXPECT_EQ(wait(ends).outcome, Outcome::Ok);
  }
  // Data there and back; what the firmware moves with vector instructions is moved whole.
  void expect_right_moves() const {
    constexpr std::uint64_t kBytes = 64 * wire::kKiB, kBack = 1 * wire::kMiB;
    const auto sent = device_->host_memory().first(kBytes);
    const auto back = device_->host_memory().subspan(kBack, kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<std::byte>(i * 7 + i / 251);
    std::ranges::fill(back, std::byte{0});
    must_end_ok(Workbench::dma(bench_.host(0), bench_.tensor(kBack), kBytes));
    must_end_ok(Workbench::dma(bench_.tensor(kBack), bench_.host(kBack), kBytes));
    const auto wrong = std::ranges::mismatch(sent, back);
    EXPECT_TRUE(wrong.in1 == sent.end()) << "the first wrong byte is number " << wrong.in1 - sent.begin();
  }
  // One launch that ends by itself, in the given way.
  void dirty_and_end(Dirt how, std::uint64_t core_mask) const {
    CompletionRecorder ends;
    submit(0, dirty(0, how, core_mask), ends);
    const auto end = wait(ends);
    const Status expected = how == Dirt::Illegal       ? Status::IllegalInstruction
                            : how == Dirt::PartialLoad ? Status::LoadFault
                                                       : Status::None;
    EXPECT_EQ(end.status, expected) << wire::name(end.status);
    if (end.outcome != Outcome::Ok) value_or_throw(device_->reset_stream(streams_[0]));
  }

 private:
  wire::ControlBlock dirty(unsigned stream, Dirt how, std::uint64_t core_mask) const {
    const std::array symbols{test::address_symbol(0, bench_.tensor(), stream * kFlagStride),
                             test::dimension_symbol(0, static_cast<std::uint64_t>(how))};
    const Region* const touched[] = {&bench_.tensor()};
    const auto correction = test::correction_of(symbols, touched);
    const std::uint64_t at = kCorrectionsAt + stream * kFlagStride;
    bench_.load(at, correction);
    auto block = bench_.compute(kDirtyAt, dirty_.size(), core_mask);
    block.payload.compute.correction = bench_.program(at);
    block.payload.compute.correction_bytes = static_cast<std::uint32_t>(correction.size());
    return block;
  }
  void submit(unsigned stream, const wire::ControlBlock& block, CompletionRecorder& ends) const {
    const ControlBlockRequest request{&block, &ends};
    ASSERT_EQ(value_or_throw(device_->submit(streams_[stream], {&request, 1})), 1u);
  }
  wire::Completion wait(const CompletionRecorder& ends) const {
    const auto status = device_->wait_until([&] { return ends.ended() != 0; }, test::soon());
    if (status == WaitStatus::TimedOut) std::abort();  // the card would call a sink that is gone
    return ends.all().back();
  }
  void must_end_ok(const wire::ControlBlock& block) const { EXPECT_EQ(bench_.run(block).outcome, Outcome::Ok); }
  bool all_flags_are_set() const {
    must_end_ok(Workbench::dma(bench_.tensor(0), bench_.host(kReadBack), kContexts * kFlagStride));
    for (unsigned i = 0; i < kContexts; ++i) {
      std::uint64_t flags[2];
      std::memcpy(flags, device_->host_memory().data() + kReadBack + i * kFlagStride, sizeof flags);
      if (flags[0] == 0 || flags[1] == 0) return false;
    }
    return true;
  }

  std::array<CompletionRecorder, kContexts> dirty_ends_;  // outlives the device, which may still end them
  std::unique_ptr<Device> device_;
  Workbench bench_;
  std::array<std::uint32_t, kContexts> streams_{};
  std::vector<std::byte> residue_;
  std::vector<std::byte> dirty_;
};

class Residue : public testing::Test {
 protected:
  static constexpr unsigned kVirtualFunctions = 2;
  static constexpr unsigned kSpareSlot = 2 + kVirtualFunctions;

  Residue() {
    auto options = test::small_card("watchdog=10000000");  // no kernel here is to be ended by it
    options.virtual_functions = kVirtualFunctions;
    options.spare_slots = 1;
    card_ = test::boot(options);
    management_ = value_or_throw(card_->open_management());
  }
  ~Residue() override { test::expect_healthy(*card_, *management_); }

  std::unique_ptr<Owner> physical() const {
    return std::make_unique<Owner>(*card_, value_or_throw(card_->open_physical()));
  }
  std::unique_ptr<Owner> virtual_function(unsigned number) const {
    return std::make_unique<Owner>(*card_, value_or_throw(card_->open_virtual(number)));
  }
  void manage(wire::AdminCommand command, unsigned slot = 0) const {
    const auto reply = test::manage(*management_, command, wire::target_of_virtual(1), slot);
    EXPECT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
  }
  // Who owns VF 1 behind the spare slot.
  std::unique_ptr<Owner> owner_of_spare_slot() const {
    DeviceOptions options;
    auto exit_fd = card_->machine().exit_fd();
    if (!exit_fd) throw std::runtime_error("the machine has ended");
    options.exit_fd = *std::move(exit_fd);
    return std::make_unique<Owner>(
        *card_, value_or_throw(Device::attach(value_or_throw(card_->slot(kSpareSlot)), std::move(options))));
  }

  std::unique_ptr<Card> card_;
  std::unique_ptr<Device> management_;
};

TEST_F(Residue, KernelFindsWhatItsOwnFunctionLeftInMemoryAndNothingElse) {
  const auto owner = virtual_function(1);
  owner->expect_nothing_found();
  owner->dirty_everything();
  owner->let_end(kContexts);
  // Found in memory, which is allowed: so the search finds.
  EXPECT_EQ(owner->look(kBothCores), kMemory);
}

TEST_F(Residue, RegistersAreCleanHoweverTheLastKernelEnded) {
  const auto owner = virtual_function(1);
  const auto other = physical();
  for (const Dirt how : {Dirt::Illegal, Dirt::VectorFloatFlags, Dirt::PartialLoad}) {
    for (const std::uint64_t core_mask : {1u, 2u, 3u}) {
      SCOPED_TRACE("dirty " + std::to_string(static_cast<int>(how)) + ", core mask " + std::to_string(core_mask));
      owner->dirty_and_end(how, core_mask);
      other->expect_nothing_found();
      owner->dirty_and_end(how, core_mask);
      owner->expect_clean_registers();
    }
  }
}

// A kernel's vstart would make the firmware's next vector move begin in the middle, and its v registers show in what
// the move leaves out.
TEST_F(Residue, MovesBehindAKernelAreRightWhateverItLeftInTheVectorUnit) {
  const auto owner = virtual_function(1);
  const auto other = physical();
  for (int round = 0; round < 10; ++round) {
    owner->dirty_and_exit(1);  // on the core that moves data
    (round % 2 == 0 ? other : owner)->expect_right_moves();
  }
}

TEST_F(Residue, OtherFunctionsFindNothingBesideAKernelNorBehindIt) {
  const auto dirtier = virtual_function(1);
  const auto neighbour = virtual_function(2);
  const auto pf = physical();
  dirtier->dirty_everything();
  neighbour->expect_nothing_found();
  pf->expect_nothing_found();
  dirtier->let_end(kContexts / 2);
  neighbour->expect_nothing_found();
  dirtier->expect_clean_registers(kContexts / 2);
  manage(wire::AdminCommand::FunctionReset);  // in the middle of the others
  neighbour->expect_nothing_found();
  pf->expect_nothing_found();
}

TEST_F(Residue, NextOwnerFindsNothingAfterAReset) {
  for (int round = 0; round < 3; ++round) {
    const auto owner = virtual_function(1);
    owner->expect_nothing_found();
    owner->dirty_everything();
    owner->let_end(kContexts / 2);
    manage(wire::AdminCommand::FunctionReset);
  }
  virtual_function(1)->expect_nothing_found();
  physical()->expect_nothing_found();
}

TEST_F(Residue, NextOwnerFindsNothingBehindANewSlot) {
  const auto owner = virtual_function(1);
  owner->dirty_everything();
  owner->let_end(kContexts / 2);
  manage(wire::AdminCommand::SlotRetire);
  manage(wire::AdminCommand::SlotBind, kSpareSlot);
  const auto next = owner_of_spare_slot();
  next->expect_nothing_found();
  virtual_function(2)->expect_nothing_found();
}

}  // namespace
}  // namespace svp
