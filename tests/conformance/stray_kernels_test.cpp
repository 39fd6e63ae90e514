// SPDX-License-Identifier: Apache-2.0
// Kernels that go where they may not: each ends in a FAULT that says where, nothing else is
// touched, only its stream is poisoned, and the card goes on.
#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "shared/array.hpp"
#include "tests/conformance/hand_made_job.hpp"
#include "tests/conformance/kernel_provider.hpp"
#include "tests/support/admin_requests.hpp"
#include "tests/support/expected_array.hpp"

namespace svp::conformance {
namespace {

using wire::FaultAccess;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kPattern = 0x5A5A5A5AA5A5A5A5;
constexpr std::size_t kOperandBytes = 4096;

enum What : std::uint64_t {
  kNothing,
  kLoad,
  kStore,
  kJump,
  kClaimForEver = 9,
  kExtremeClaims,
  kArrayLoad,
  kArrayStore,
  kArrayChunkLoad,
  kArrayChunkStore,
  kArrayLinesLoad,
  kArrayLinesStore,
  kArrayConvertLoad,
  kArrayConvertStore,
  kArrayBlocksLoad,
  kArrayBlocksStore,
  kArrayCopiesLoad,
  kArrayCopiesStore,
  kArrayTopKLoad,
  kArrayTopKStore
};

// From kArrayLoad on, loads and stores alternate.
bool loads(What what) { return what == kLoad || (what >= kArrayLoad && (what - kArrayLoad) % 2 == 0); }
bool stores(What what) { return what == kStore || (what >= kArrayLoad && (what - kArrayLoad) % 2 != 0); }

class StrayKernels : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    context_ = kernel_provider().open_context();
    victim_ = &context_->runtime().next_stream(StreamPriority::Low);
    neighbour_ = &context_->runtime().next_stream(StreamPriority::Low);
    operand_ = context_->runtime().allocator().allocate(kOperandBytes);
    const Job fill = Job::fill(operand_, kOperandBytes, kPattern);
    neighbour_->Launch(fill, {});
    neighbour_->Synchronize(test::soon());
    ExecutionPlan plan({Job(CompiledKernel(context_->kernel("empty"), {}))});
    context_->load(plan);
    empty_.emplace(plan.jobs()[0]);
    const auto at = context_->runtime().allocator().resolve(operand_);
    ordinal_ = at.region_ordinal;
    operand_address_ = wire::region_window(ordinal_) + at.address.offset;
    for (const auto& region : context_->runtime().allocator().statistics().regions) {
      if (region.ordinal == ordinal_) region_bytes_ = region.bytes;
    }
  }
  static void TearDownTestSuite() {
    empty_.reset();
    context_.reset();
  }
  void SetUp() override { ASSERT_GT(region_bytes_, 0u); }

  // The neighbour's stream, the operand's contents, the firmware: all as before.
  void TearDown() override {
    if (victim_->error()) victim_->Reset();
    std::vector<std::uint64_t> words(kOperandBytes / 8);
    neighbour_->Launch(Job::from_device(words.data(), operand_, kOperandBytes), {});
    neighbour_->Synchronize(test::soon());
    EXPECT_TRUE(std::ranges::all_of(words, [](std::uint64_t w) { return w == kPattern; })) << "the operand changed";
    expect_healthy(context_->device());
  }

  // Deed number `what` of the kernel "privileged" is an illegal instruction in the function `deed`.
  void expect_illegal(std::uint64_t what, std::string_view deed);

  static Job stray(What what, std::uint64_t address) {
    return test::job_with_symbols(*context_, "stray", 1, {address - operand_address_, what});
  }

  // Launches on the victim's stream; the failure it ends with. Nothing when it ended well.
  static std::optional<StreamFailure> failure_of(const Job& job, std::uint64_t core_mask = 0,
                                                 std::uint64_t budget_slices = 0) {
    const Argument argument{.allocation = operand_, .shape = {1, 64}};
    victim_->Launch(job, {&argument, 1}, {.core_mask = core_mask, .budget_slices = budget_slices});
    try {
      victim_->Synchronize(test::soon());
    } catch (const StreamError& error) {
      EXPECT_FALSE(error.info().next_step.empty());
      return error.failure();
    }
    return std::nullopt;
  }

  // The stream is poisoned, its neighbour works, and after a reset so does the stream.
  static void expect_contained() {
    EXPECT_THROW(victim_->Launch(*empty_, {}), StreamError);
    neighbour_->Launch(*empty_, {});
    EXPECT_NO_THROW(neighbour_->Synchronize(test::soon()));
    victim_->Reset();
    victim_->Launch(*empty_, {});
    EXPECT_NO_THROW(victim_->Synchronize(test::soon()));
  }

  static inline std::unique_ptr<svp::Context> context_;
  static inline FlexStream* victim_ = nullptr;
  static inline FlexStream* neighbour_ = nullptr;
  static inline std::optional<Job> empty_;
  static inline AllocationIndex operand_ = AllocationIndex::Null;
  static inline std::uint32_t ordinal_ = 0;
  static inline std::uint64_t operand_address_ = 0;
  static inline std::uint64_t region_bytes_ = 0;
};

struct Place {
  const char* name;
  std::uint64_t address;
  std::uint32_t ordinal = wire::kNoRegionOrdinal;  // else the offset is relative to the region's window
};

TEST_F(StrayKernels, LoadsStoresAndJumpsOutsideEverythingFaultWithTheirAddress) {
  const std::uint64_t window = std::uint64_t{1} << wire::kRegionShift;
  const std::uint32_t unused = ordinal_ == 3 ? 4 : 3;
  const std::uint64_t program = wire::region_window(wire::kProgramRegion);
  const std::uint64_t context = wire::kContextWindow;
  constexpr What kWhats[] = {kLoad,
                             kStore,
                             kJump,
                             kArrayLoad,
                             kArrayStore,
                             kArrayChunkLoad,
                             kArrayChunkStore,
                             kArrayLinesLoad,
                             kArrayLinesStore,
                             kArrayConvertLoad,
                             kArrayConvertStore,
                             kArrayBlocksLoad,
                             kArrayBlocksStore,
                             kArrayCopiesLoad,
                             kArrayCopiesStore,
                             kArrayTopKLoad,
                             kArrayTopKStore};
  // Each job's image takes an area of its own: the last one is without an image while the first place is looked at, by
  // the first of these.
  constexpr std::size_t kAtFirst = wire::kExecutionAreas - 2;
  static_assert(kAtFirst < std::size(kWhats));
  const Place places[] = {
      {"execution area without an image", context + (wire::kExecutionAreas - 1) * wire::kExecutionAreaStride},
      {"null", 0},
      {"next to null", 8},
      {"end of the null guard", window - 8},
      {"the firmware's memory", 0x80000000},
      {"the firmware's memory, further up", 0x80200000},
      {"physical region memory", 0x100000000},
      {"UART", 0x10000000},
      {"power switch", 0x100000},
      {"interrupt files", 0x24000000},
      {"timer", 0x2004000},
      {"behind the region's end", wire::region_window(ordinal_) + region_bytes_, ordinal_},
      {"far behind the region's end", wire::region_window(ordinal_) + window - 8, ordinal_},
      {"window without a region", wire::region_window(unused) + 4096, unused},
      {"Program region", program, wire::kProgramRegion},
      {"Program region, further up", program + 64 * wire::kKiB, wire::kProgramRegion},
      {"between the windows and the contexts", context - 8},
      {"behind the text of an execution area", context + wire::kPoolOffset - 8},
      {"behind the correction", context + wire::kCorrectionOffset + wire::kMaxCorrectionBytes},
      {"under the stack", context + wire::kStackOffset - 8},
      {"behind the stack", context + wire::kStackOffset + wire::kKernelStackBytes},
      {"behind the scratchpad", context + wire::kScratchpadOffset + wire::kScratchpadBytes},
      {"context that is not there", context + 40 * wire::kContextStride},
      {"end of the lower half", (std::uint64_t{1} << 38) - 8},
      {"address that is none", std::uint64_t{1} << 45},
      {"upper half", ~std::uint64_t{0} - 7},
  };
  for (const Place& place : places) {
    for (const What what : std::span(kWhats).first(&place == places ? kAtFirst : std::size(kWhats))) {
      SCOPED_TRACE(std::string(place.name) + ", what " + std::to_string(what));
      const auto failure = failure_of(stray(what, place.address));
      ASSERT_TRUE(failure) << "no fault";
      EXPECT_EQ(failure->outcome, Outcome::Fault);
      const Status status = loads(what) ? Status::LoadFault : stores(what) ? Status::StoreFault : Status::FetchFault;
      EXPECT_EQ(failure->status, status) << wire::name(failure->status);
      EXPECT_EQ(failure->fault.access, loads(what)    ? FaultAccess::Load
                                       : stores(what) ? FaultAccess::Store
                                                      : FaultAccess::Fetch);
      EXPECT_EQ(failure->fault.region_ordinal, place.ordinal);
      EXPECT_EQ(failure->fault.offset, place.ordinal == wire::kNoRegionOrdinal
                                           ? place.address
                                           : place.address - wire::region_window(place.ordinal));
      if (what != kJump) {
        EXPECT_TRUE(failure->symbol.contains(loads(what) ? "stray_load" : "stray_store")) << failure->symbol;
      } else {
        EXPECT_EQ(failure->symbol, "outside of the image's text");
      }
      victim_->Reset();
      if (HasFatalFailure()) return;
    }
  }
}

// What is mapped for the kernel itself, used in a way that it is not mapped for.
TEST_F(StrayKernels, NothingIsWritableAndExecutable) {
  // The launch's own text, pool and so on: of context 0, in whichever area the image was put.
  struct Own {
    const char* name;
    std::uint64_t offset;
    bool load, store;
  };
  unsigned area = 0;
  for (; area < wire::kExecutionAreas; ++area) {  // the first whose text can be read: images before ours are there, too
    if (!failure_of(stray(kLoad, wire::kContextWindow + area * wire::kExecutionAreaStride))) break;
    victim_->Reset();
  }
  ASSERT_LT(area, wire::kExecutionAreas);
  const std::uint64_t own = area * wire::kExecutionAreaStride;
  const Own places[] = {
      {"text", own + wire::kTextOffset, true, false},       {"arguments", wire::kArgumentsOffset, true, false},
      {"correction", wire::kCorrectionOffset, true, false}, {"stack", wire::kStackOffset, true, true},
      {"scratchpad", wire::kScratchpadOffset, true, true},
  };
  for (const Own& place : places) {
    SCOPED_TRACE(place.name);
    const std::uint64_t address = wire::kContextWindow + place.offset;
    const auto load = failure_of(stray(kLoad, address));
    EXPECT_EQ(!load, place.load) << wire::name(load ? load->status : Status::None);
    if (load) victim_->Reset();
    const auto store = failure_of(stray(kStore, address));
    EXPECT_EQ(!store, place.store);
    if (store) {
      EXPECT_EQ(store->status, Status::StoreFault);
      EXPECT_EQ(store->fault.offset, address);
      EXPECT_TRUE(store->symbol.contains("stray_store")) << store->symbol;
      expect_contained();
    }
    for (const What what : {kArrayStore, kArrayChunkStore, kArrayLinesStore, kArrayConvertStore, kArrayBlocksStore,
                            kArrayCopiesStore, kArrayTopKStore}) {
      const auto by_array = failure_of(stray(what, address));
      EXPECT_EQ(by_array.has_value(), !place.store || test::cards_have_array());
      if (by_array) {
        EXPECT_EQ(by_array->status == Status::StoreFault, !place.store) << wire::name(by_array->status);
        victim_->Reset();
      }
    }
    if (place.offset == own + wire::kTextOffset) continue;
    const auto jump = failure_of(stray(kJump, address));
    ASSERT_TRUE(jump) << "data was executed";
    EXPECT_EQ(jump->status, Status::FetchFault);
    EXPECT_EQ(jump->fault.offset, address);
    expect_contained();
  }
}

TEST_F(StrayKernels, TheLiteralPoolIsNotExecutable) {
  // The pool of each area that has one; "stray" itself keeps its symbols there.
  unsigned pools = 0;
  for (unsigned area = 0; area < 4; ++area) {
    const std::uint64_t pool = wire::kContextWindow + area * wire::kExecutionAreaStride + wire::kPoolOffset;
    const auto load = failure_of(stray(kLoad, pool));
    if (load) victim_->Reset();
    const auto jump = failure_of(stray(kJump, pool));
    ASSERT_TRUE(jump);
    EXPECT_EQ(jump->status, Status::FetchFault);
    EXPECT_EQ(jump->fault.offset, pool);
    EXPECT_EQ(jump->fault.pc, ~std::uint64_t{0});
    victim_->Reset();
    pools += load ? 0 : 1;
  }
  EXPECT_GE(pools, 1u);
}

TEST_F(StrayKernels, TensorMemoryIsNotExecutable) {
  const auto jump = failure_of(stray(kJump, operand_address_));
  ASSERT_TRUE(jump);
  EXPECT_EQ(jump->status, Status::FetchFault);
  EXPECT_EQ(jump->fault.region_ordinal, ordinal_);
  expect_contained();
}

TEST_F(StrayKernels, AFaultOfASecondCoreIsAttributedToIt) {
  constexpr std::uint64_t kLastCoreLoad = 8;
  const auto failure =
      failure_of(test::job_with_symbols(*context_, "stray", 1, {0x80000000 - operand_address_, kLastCoreLoad}), 3);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->status, Status::LoadFault);
  EXPECT_EQ(failure->fault.core, 1u);
  EXPECT_EQ(failure->fault.offset, 0x80000000u);
  expect_contained();
}

// Each claim leaves U-mode and comes back: that neither renews the budget nor keeps core 0 from other streams.
TEST_F(StrayKernels, ClaimsWithoutEndAreEndedByTheWatchdog) {
  for (const std::uint64_t mask : {1u, 3u}) {
    const auto failure = failure_of(stray(kClaimForEver, operand_address_), mask, 20);
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->outcome, Outcome::Timeout);
    EXPECT_EQ(failure->status, Status::WatchdogExpired) << wire::name(failure->status);
    expect_contained();
  }
}

TEST_F(StrayKernels, ClaimsOfExtremeCountsEndWhereNumbersEnd) {
  EXPECT_FALSE(failure_of(stray(kExtremeClaims, operand_address_)));
}

TEST_F(StrayKernels, ManyFaultsInARowLeaveNoTrace) {
  const Job job = stray(kStore, 0x80001000);
  const auto start = Device::Clock::now();
  for (int i = 0; i < 200; ++i) {
    const auto failure = failure_of(job, i % 3 == 0 ? 3 : 0);
    ASSERT_TRUE(failure) << i;
    ASSERT_EQ(failure->status, Status::StoreFault) << i;
    victim_->Reset();
  }
  RecordProperty("microseconds_per_fault_and_reset",
                 std::to_string(std::chrono::duration<double, std::micro>(Device::Clock::now() - start).count() / 200));
  EXPECT_FALSE(failure_of(stray(kNothing, 0)));
}

// Instructions and registers that belong to the firmware: illegal, with the function that tried; what a kernel may use
// works.
void StrayKernels::expect_illegal(std::uint64_t what, std::string_view deed) {
  SCOPED_TRACE(deed);
  const auto failure = failure_of(test::job_with_symbols(*context_, "privileged", 0, {what}));
  ASSERT_TRUE(failure) << "it was allowed";
  EXPECT_EQ(failure->outcome, Outcome::Fault);
  EXPECT_EQ(failure->status, Status::IllegalInstruction) << wire::name(failure->status);
  EXPECT_TRUE(failure->symbol.contains(deed)) << failure->symbol;
  expect_contained();
}

TEST_F(StrayKernels, PrivilegedInstructionsFaultAndAllowedOnesDoNot) {
  EXPECT_FALSE(failure_of(test::job_with_symbols(*context_, "privileged", 0, {0}))) << "what every kernel may do";
  constexpr const char* kIllegal[] = {"read_cycle",
                                      "read_time",
                                      "read_instret",
                                      "read_sstatus",
                                      "write_satp",
                                      "read_stopei",
                                      "read_mstatus",
                                      "read_mhartid",
                                      "write_mtvec",
                                      "write_pmpcfg",
                                      "return_to_machine",
                                      "return_to_supervisor",
                                      "wait_for_interrupt",
                                      "flush_translations",
                                      "debug_return",
                                      "no_instruction",
                                      "all_ones"};
  for (std::uint64_t what = 1; what <= std::size(kIllegal); ++what) expect_illegal(what, kIllegal[what - 1]);
}

// cbo.inval throws away what has not been written back: scrubbed memory would show what it held before.
TEST_F(StrayKernels, CacheBlockOperationsFault) {
  constexpr std::uint64_t kFirst = 20;
  constexpr const char* kIllegal[] = {"invalidate_block", "clean_block", "flush_block", "zero_block"};
  for (std::uint64_t i = 0; i < std::size(kIllegal); ++i) expect_illegal(kFirst + i, kIllegal[i]);
}

TEST_F(StrayKernels, UnknownEnvironmentCallsFault) {
  for (const auto& [what, number] : {std::pair{18ull, ~0ull}, std::pair{19ull, 5ull}}) {
    const auto failure = failure_of(test::job_with_symbols(*context_, "privileged", 0, {what}));
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->status, Status::BadEnvironmentCall);
    EXPECT_EQ(failure->fault.argument, number);
    expect_contained();
  }
}

// Of an order that the array has not asked for nothing comes.
TEST_F(StrayKernels, ACallForOrdersReturns) {
  EXPECT_FALSE(failure_of(test::job_with_symbols(*context_, "privileged", 0, {24})));
}

TEST_F(StrayKernels, TheCardTellsWhetherItHasTheArray) {
  const auto reply = value_or_throw(context_->device().admin(test::admin_request(wire::AdminCommand::Query)));
  EXPECT_EQ(reply.values.region.array_version, test::cards_have_array() ? wire::array::kVersion : 0u);
}

// An array that believed a kernel's greeting would look for the card's memory where the kernel says.
TEST_F(StrayKernels, TheFirmwaresHintsToTheArrayDoNothing) {
  for (const std::uint64_t what : {25u, 26u}) {
    SCOPED_TRACE(what);
    for (const std::uint64_t cores : {1u, 3u}) {
      EXPECT_FALSE(failure_of(test::job_with_symbols(*context_, "privileged", 0, {what}), cores));
    }
    EXPECT_FALSE(failure_of(stray(kLoad, operand_address_))) << "the operand is mapped now";
    const auto served = failure_of(stray(kArrayLoad, operand_address_));
    ASSERT_EQ(served.has_value(), test::cards_have_array()) << "the kernel says so by its exit status";
    if (!served) continue;
    EXPECT_EQ(served->status, Status::KernelStatus) << wire::name(served->status);
    victim_->Reset();
  }
}

}  // namespace
}  // namespace svp::conformance
