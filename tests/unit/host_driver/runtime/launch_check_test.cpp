// SPDX-License-Identifier: Apache-2.0
// What a launch refuses: every wrong thing by its type and its name, before anything is submitted, and the stream works
// on. Over the real firmware core on a thread, with a kernel that is played.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/runtime/played_sum.hpp"
#include "tests/unit/host_driver/runtime/sum_rig.hpp"

namespace svp {
namespace {

using Clock = FlexStream::Clock;
using Reason = TilingError::Reason;
constexpr std::uint64_t kMiB = wire::kMiB;
constexpr std::uint64_t kBytes = 16 * 128;  // of an operand of the compiled shape

struct Refusal {
  std::string type;
  std::string field;
  friend bool operator==(const Refusal&, const Refusal&) = default;
};
std::ostream& operator<<(std::ostream& out, const Refusal& refusal) {
  return out << refusal.type << " of " << refusal.field;
}

template <typename Call>
Refusal refusal_of(Call call) {
  try {
    call();
    return {"accepted", ""};
  } catch (const TilingError& error) {
    return {"TilingError " + std::to_string(static_cast<int>(error.reason())), error.field()};
  } catch (const TiledLaunchNotAllowed& error) {
    return {"TiledLaunchNotAllowed", error.field()};
  } catch (const spyre::CopyNeeded& error) {
    return {"CopyNeeded", error.field()};
  } catch (const InvalidArgument& error) {
    EXPECT_FALSE(error.info().next_step.empty()) << error.what();
    return {"InvalidArgument", error.field()};
  } catch (const InvalidAllocation& error) {
    EXPECT_FALSE(error.info().next_step.empty()) << error.what();
    return {"InvalidAllocation " + std::to_string(static_cast<int>(error.reason())), error.info().source};
  } catch (const StreamError& error) {
    return {"StreamError", error.info().message};
  } catch (const Error& error) {
    return {"Error", error.info().message};
  }
}

Refusal tiling(Reason reason, const char* field) {
  return {"TilingError " + std::to_string(static_cast<int>(reason)), field};
}
Refusal invalid(const char* field) { return {"InvalidArgument", field}; }
Refusal unusable(InvalidAllocation::Reason reason, const char* source) {
  return {"InvalidAllocation " + std::to_string(static_cast<int>(reason)), source};
}

struct Rig {
  test::PlayedSum sum;
  test::NativeCard card{{.window_bytes = 32 * kMiB, .kernel = sum.player()}};
  std::unique_ptr<Runtime> runtime =
      std::make_unique<Runtime>(card.attach(1), options(), std::make_unique<test::SumSource>(card));
  FlexStream& stream = runtime->default_stream();
  CompiledKernel compiled{test::sum_kernel(), {{"M", 16}, {"N", 64}}};
  ExecutionPlan plan{{Job(compiled)}};
  std::vector<Argument> good;
  std::uint64_t launches = 0;  // accepted

  Rig() {
    sum.card = &card;
    plan.load(*runtime, stream);
    ++launches;
    good.reserve(3);
    for (int i = 0; i < 3; ++i) good.push_back({.allocation = allocate(4 * kBytes), .shape = {16, 64}});
    stream.Synchronize(Clock::now() + test_bounds::kWork);
  }
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * kMiB};
    return options;
  }
  AllocationIndex allocate(std::uint64_t bytes) { return runtime->allocator().allocate(bytes); }

  Refusal launch(const std::vector<Argument>& arguments, const LaunchOptions& how = {}) {
    return refusal_of([&] { stream.Launch(plan.jobs()[0], arguments, how); });
  }
  template <typename Change>
  Refusal with(std::size_t operand, Change change, const LaunchOptions& how = {}) {
    auto arguments = good;
    change(arguments[operand]);
    return launch(arguments, how);
  }
  // Nothing has reached the card since, and the stream works.
  void expect_untouched() {
    EXPECT_EQ(stream.error(), std::nullopt);
    EXPECT_TRUE(stream.Query());
    const std::uint64_t before = sum.tiles;
    EXPECT_EQ(stream.Launch(plan.jobs()[0], good), ++launches) << "a refused launch has a number";
    stream.Synchronize(Clock::now() + test_bounds::kWork);
    EXPECT_EQ(sum.tiles, before + 1) << "a refused launch ran";
  }
};

TEST(LaunchCheck, NumberAndFormOfOperands) {
  Rig rig;
  EXPECT_EQ(rig.launch({}), invalid("arguments"));
  EXPECT_EQ(rig.launch({rig.good[0], rig.good[1]}), invalid("arguments"));
  EXPECT_EQ(rig.launch({rig.good[0], rig.good[1], rig.good[2], rig.good[2]}), invalid("arguments"));
  EXPECT_EQ(rig.with(0, [](Argument& a) { a.dtype = DeviceType::Fp32; }), invalid("operand a"));
  EXPECT_EQ(rig.with(1, [](Argument& b) { b.offset = 64; }), invalid("operand b"));
  EXPECT_EQ(rig.with(1, [](Argument& b) { b.shape = {16, 0}; }), invalid("operand b"));
  EXPECT_EQ(rig.with(2, [](Argument& c) { c.shape = {-1, 64}; }), invalid("operand c"));
  EXPECT_EQ(rig.with(2, [](Argument& c) { c.shape = {16}; }), tiling(Reason::RankDiffers, "operand c"));
  rig.expect_untouched();
}

// The driver remembers what follows from the shapes alone.
TEST(LaunchCheck, TheOffsetIsCheckedAlsoOfShapesThatWereLaunchedBefore) {
  Rig rig;
  rig.expect_untouched();
  EXPECT_EQ(rig.with(1, [](Argument& b) { b.offset = 64; }), invalid("operand b"));
  rig.expect_untouched();
}

TEST(LaunchCheck, MemoryOfOperands) {
  Rig rig;
  EXPECT_EQ(rig.with(1, [](Argument& b) { b.offset = 4 * kBytes; }), invalid("operand b")) << "beyond its allocation";
  EXPECT_EQ(rig.with(1, [](Argument& b) { b.offset = ~std::uint64_t{127}; }), invalid("operand b"));
  EXPECT_EQ(rig.with(2, [&](Argument& c) { c.allocation = rig.good[0].allocation; }), invalid("operand c"));
  EXPECT_EQ(rig.with(0, [&](Argument& a) { a.allocation = rig.plan.jobs()[0].allocation_index(); }),
            invalid("operand a"))
      << "program memory";
  rig.expect_untouched();
}

// Every launch that takes memory of the card, at each place of it.
TEST(LaunchCheck, AHandleThatNamesNothingIsInvalidAllocationWithTheReasonEverywhere) {
  using Handle = InvalidAllocation::Reason;
  Rig rig;
  const AllocationIndex released = rig.allocate(kBytes);
  rig.runtime->allocator().deallocate(released);
  const AllocationIndex lost = rig.allocate(kBytes);
  rig.stream.Synchronize(Clock::now() + test_bounds::kWork);
  (void)rig.runtime->recover(ResetLevel::Function);
  rig.plan.load(*rig.runtime, rig.stream);
  ++rig.launches;
  rig.stream.Synchronize(Clock::now() + test_bounds::kWork);
  for (Argument& argument : rig.good) argument.allocation = rig.allocate(4 * kBytes);
  const AllocationIndex live = rig.good[0].allocation;
  PinnedBuffer pinned = rig.runtime->host_memory().allocate(kBytes);
  std::vector<std::byte> pageable(kBytes);
  const StridedLoops loops{{4, 4}, {8, 1}, {1, 4}, 0, 0};

  for (const auto& [handle, reason] : {std::pair{AllocationIndex::Null, Handle::Null},
                                       {AllocationIndex{12345}, Handle::Foreign},
                                       {released, Handle::LostInReset},
                                       {lost, Handle::LostInReset}}) {
    SCOPED_TRACE(static_cast<int>(reason));
    for (std::size_t i = 0; i < 3; ++i) {
      const char* names[] = {"operand a", "operand b", "operand c"};
      EXPECT_EQ(rig.with(i, [&](Argument& a) { a.allocation = handle; }), unusable(reason, names[i]));
    }
    if (reason == Handle::Null) continue;  // no plan names it
    const auto strided = [&](StridedPlace from, StridedPlace to) {
      const StridedTransfer transfer{from, to, 2, loops};
      return Job::strided({&transfer, 1});
    };
    const PinnedPlace host{pinned.data(), kBytes};
    const Job transfers[] = {Job::to_device(pageable.data(), handle, kBytes),
                             Job::to_device(pinned.data(), handle, kBytes),
                             Job::from_device(pageable.data(), handle, kBytes),
                             Job::from_device(pinned.data(), handle, kBytes),
                             Job::fill(handle, kBytes, 1),
                             Job(JobPlan({DMA{.allocation_index = handle,
                                              .size = kBytes,
                                              .direction = Direction::DeviceToDevice,
                                              .source_allocation_index = live}})),
                             Job(JobPlan({DMA{.allocation_index = live,
                                              .size = kBytes,
                                              .direction = Direction::DeviceToDevice,
                                              .source_allocation_index = handle}})),
                             strided(host, CardPlace{handle}),
                             strided(CardPlace{handle}, host),
                             strided(CardPlace{live}, CardPlace{handle}),
                             strided(CardPlace{handle}, CardPlace{live})};
    for (const Job& job : transfers) {
      EXPECT_EQ(refusal_of([&] { rig.stream.Launch(job, {}); }), unusable(reason, "job_plan.step[0]"))
          << "transfer " << &job - transfers;
    }
  }
  const AllocationIndex freed = rig.allocate(kBytes);
  rig.runtime->allocator().deallocate(freed);
  EXPECT_EQ(rig.with(1, [&](Argument& b) { b.allocation = freed; }), unusable(Handle::Released, "operand b"));
  EXPECT_EQ(refusal_of([&] { rig.stream.Launch(Job::fill(freed, kBytes, 1), {}); }),
            unusable(Handle::Released, "job_plan.step[0]"));
  rig.expect_untouched();
}

TEST(LaunchCheck, MemoryInSeveralChunks) {
  Rig rig;
  const AllocationIndex first = rig.allocate(63 * kMiB), other = rig.allocate(4 * kMiB);  // another region
  rig.runtime->allocator().deallocate(first);
  rig.runtime->allocator().deallocate(other);
  const AllocationIndex interleaved =
      rig.runtime->allocator().allocate(256 * wire::kKiB, {.placement = Placement::Interleave});
  ASSERT_GT(rig.runtime->allocator().resolve_chunks(interleaved).count, 1U);
  EXPECT_EQ(rig.with(0, [&](Argument& a) { a.allocation = interleaved; }), (Refusal{"CopyNeeded", "operand a"}));
  rig.expect_untouched();
}

TEST(LaunchCheck, ShapesAgainstTheTile) {
  Rig rig;
  EXPECT_EQ(rig.with(1, [](Argument& b) { b.shape = {32, 64}; }),
            tiling(Reason::Inconsistent, "operand c, dimension M"));
  EXPECT_EQ(rig.with(1, [](Argument& b) { b.shape = {8, 64}; }),
            tiling(Reason::Inconsistent, "operand b, dimension M"));
  EXPECT_EQ(rig.with(1, [](Argument& b) { b.shape = {16, 1}; }),
            tiling(Reason::StickBroadcast, "operand b, dimension N"));
  EXPECT_EQ(rig.with(0, [](Argument& a) { a.shape = {1, 64}; }), tiling(Reason::FixedStride, "operand a, dimension M"));
  auto twice = rig.good;
  for (Argument& argument : twice) argument.shape = {32, 64};
  EXPECT_EQ(rig.launch(twice, {.allow_tiled_launch = false}),
            (Refusal{"TiledLaunchNotAllowed", "operand a, dimension M"}));
  auto half = rig.good;
  for (Argument& argument : half) argument.shape = {8, 64};
  EXPECT_EQ(rig.launch(half, {.allow_tiled_launch = false}),
            (Refusal{"TiledLaunchNotAllowed", "operand a, dimension M"}));
  EXPECT_EQ(rig.with(1, [](Argument& b) { b.stride = std::array<std::uint64_t, Shape::kMaxRank>{256, 4096}; },
                     {.allow_tiled_launch = false}),
            (Refusal{"TiledLaunchNotAllowed", "operand b, dimension M"}));
  rig.expect_untouched();
}

TEST(LaunchCheck, StridesOfViews) {
  Rig rig;
  using Strides = std::array<std::uint64_t, Shape::kMaxRank>;
  EXPECT_EQ(rig.with(1, [](Argument& b) { b.stride = Strides{100, 2048}; }), invalid("operand b"));
  EXPECT_EQ(rig.with(1, [](Argument& b) { b.stride = Strides{1024, 2048}; }), invalid("operand b")) << "too far";
  EXPECT_EQ(rig.with(1, [](Argument& b) { b.stride = Strides{~std::uint64_t{127}, 2048}; }), invalid("operand b"));
  EXPECT_EQ(rig.with(0, [](Argument& a) { a.stride = Strides{256, 2048}; }),
            (Refusal{"CopyNeeded", "operand a, dimension M"}))
      << "the kernel takes no stride for its rows";
  EXPECT_EQ(rig.with(2, [](Argument& c) { c.stride = Strides{0, 2048}; }), invalid("operand c")) << "an output";
  EXPECT_EQ(rig.with(1, [](Argument& b) { b.stride = Strides{256, 8192}; }).type, "accepted");
  ++rig.launches;
  rig.stream.Synchronize(Clock::now() + test_bounds::kWork);
  rig.expect_untouched();
}

TEST(LaunchCheck, JobsAndDevices) {
  Rig rig;
  EXPECT_EQ(refusal_of([&] { rig.stream.Launch(Job(rig.compiled), rig.good); }), invalid("job")) << "not loaded";
  EXPECT_EQ(refusal_of([&] { rig.stream.Launch(Job::fill(rig.good[0].allocation, 128, 1), rig.good); }),
            invalid("arguments"))
      << "a transfer takes no operands";
  Runtime beside(rig.card.attach(2), Rig::options());
  const AllocationIndex foreign = beside.allocator().allocate(kBytes);
  EXPECT_EQ(rig.with(1, [&](Argument& b) { b.allocation = foreign; }),
            unusable(InvalidAllocation::Reason::Foreign, "operand b"));
  EXPECT_EQ(refusal_of([&] { beside.default_stream().Launch(rig.plan.jobs()[0], rig.good); }), invalid("job"))
      << "loaded on another device";
  rig.expect_untouched();
}

// Its blocks are all written by Launch().
TEST(LaunchCheck, TilesOfAPlanWithFunctionsOfItsOwn) {
  Rig rig;
  const CompiledKernel row(test::sum_kernel(), {{"M", 1}, {"N", 64}});
  unsigned calls = 0;
  const HostFunction function = [&](const HostOperationInput& input, std::span<std::byte> correction) {
    ++calls;
    return build_correction(input, correction);
  };
  Job job(row.kernel(), ProgramCorrectionMetadata::of(*row.kernel()),
          JobPlan({HostOperation{function}, CorrectionDMA{},
                   DeviceCompute{{row.operand_shapes().begin(), row.operand_shapes().end()}}}));
  job.set_program(rig.plan.jobs()[0].program());
  constexpr std::int64_t kMany = FlexStream::kMaxTilesAtOnce + 1;
  std::vector<Argument> many;
  many.reserve(3);
  for (int i = 0; i < 3; ++i) many.push_back({.allocation = rig.allocate(kMany * 128), .shape = {kMany, 64}});
  EXPECT_EQ(refusal_of([&] { rig.stream.Launch(job, many); }), invalid("arguments"));
  EXPECT_EQ(calls, 0u);
  EXPECT_EQ(refusal_of([&] { rig.stream.Launch(job, rig.good); }).type, "accepted");
  EXPECT_EQ(calls, 16u) << "all before Launch() returns";
  ++rig.launches;
  rig.stream.Synchronize(Clock::now() + test_bounds::kWork);
  EXPECT_EQ(rig.sum.tiles, 16u);
  rig.expect_untouched();
}

// Every job of a plan is checked before the first is submitted.
TEST(LaunchCheck, OneWrongJobOfSeveralRefusesAll) {
  Rig rig;
  auto wrong = rig.good;
  wrong[2].dtype = DeviceType::Fp32;
  const Job& job = rig.plan.jobs()[0];
  for (int wrong_one = 0; wrong_one < 3; ++wrong_one) {
    std::vector<LaunchRequest> requests;
    requests.reserve(3);
    for (int i = 0; i < 3; ++i) requests.push_back({&job, i == wrong_one ? wrong : rig.good, {}});
    EXPECT_EQ(refusal_of([&] { rig.stream.Launch(requests); }), invalid("operand c"));
  }
  rig.expect_untouched();
}

TEST(LaunchCheck, AStreamThatIsBeingReset) {
  Rig rig;
  rig.card.pause();
  rig.stream.Launch(rig.plan.jobs()[0], rig.good);
  std::thread resets([&] { rig.stream.Reset(); });
  Refusal refusal{"accepted", ""};
  const auto end = Clock::now() + test_bounds::kWork;
  while (refusal.type == "accepted" && Clock::now() < end) refusal = rig.launch(rig.good);  // the reset has to begin
  EXPECT_EQ(refusal.type, "Error");
  EXPECT_NE(refusal.field.find("is being reset"), std::string::npos) << refusal.field;
  rig.card.resume();
  resets.join();  // bounded: a reset is
  EXPECT_EQ(rig.stream.error(), std::nullopt);
  EXPECT_NO_THROW(rig.stream.Launch(rig.plan.jobs()[0], rig.good));
  EXPECT_NO_THROW(rig.stream.Synchronize(Clock::now() + test_bounds::kWork));
}

TEST(LaunchCheck, AStreamThatIsPoisoned) {
  Rig rig;
  rig.sum.fails_at = 0;
  rig.stream.Launch(rig.plan.jobs()[0], rig.good);
  EXPECT_THROW(rig.stream.Synchronize(Clock::now() + test_bounds::kWork), StreamError);
  EXPECT_EQ(rig.launch(rig.good).type, "StreamError");
  EXPECT_EQ(rig.launch({}), invalid("arguments")) << "what is wrong with the launch itself is told first";
}

// Launches when it goes: at the end of the runtime, whose streams are closed by then.
struct LastLaunch {
  Rig& rig;
  Refusal& refusal;
  ~LastLaunch() {
    refusal = refusal_of([&] { rig.stream.Launch(Job::fill(rig.good[0].allocation, 128, 1), {}); });
  }
};

TEST(LaunchCheck, AStreamThatIsClosed) {
  Rig rig;
  Refusal refusal;
  rig.card.pause();
  rig.stream.Launch(rig.plan.jobs()[0], rig.good, {.keep_alive = std::make_shared<LastLaunch>(rig, refusal)});
  rig.runtime.reset();
  EXPECT_EQ(refusal.type, "Error");
  EXPECT_NE(refusal.field.find("is closed"), std::string::npos) << refusal.field;
  rig.card.resume();
}

}  // namespace
}  // namespace svp
