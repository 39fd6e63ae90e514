// SPDX-License-Identifier: Apache-2.0
// Programs that drop their results at once and do not synchronise, on a card that may touch little memory: memory that
// was freed is used again in the order of the stream. docs/memory.md.
#include "tests/device/runtime/program_card.hpp"

namespace svp {
namespace {

using wire::kMiB;
using wire::program::Base;

class MemoryReuse : public test::ProgramCard {
 protected:
  static constexpr std::uint64_t kBudget = 128 * kMiB;
  static constexpr std::uint64_t kBytes = 8 * kMiB;
  static constexpr unsigned kRounds = 400;

  static void SetUpTestSuite() {}
  void SetUp() override {
    CardOptions card;
    card.populated_budget_bytes = kBudget;
    ContextOptions options;
    options.function = test::function_under_test();
    card.sole_function = options.function;  // its budget is not divided
    options.card = card;
    context_ = Context::open(std::move(options));
  }
  void TearDown() override { context_.reset(); }

  FlexAllocator& allocator() { return context_->runtime().allocator(); }
  FlexStream& on() { return context_->runtime().default_stream(); }

  std::unique_ptr<Context> context_;
};

TEST_F(MemoryReuse, ALoopThatDropsItsResultsRunsForEver) {
  for (unsigned i = 0; i < kRounds; ++i) {
    const AllocationIndex out = allocator().allocate(kBytes);
    on().Launch(Job::fill(out, kBytes, i), {});
    allocator().deallocate(out);
  }
  EXPECT_NO_THROW(on().Synchronize(test::soon()));
  EXPECT_LE(allocator().memory_stats().active_bytes.peak, 8 * kBytes);
}

// Each result is read before it is dropped, and is what it should be, whoever has its memory next. A thread that
// changes its stream gives memory of one to the other, which comes back when both have ended: an allocation waits for
// it.
TEST_F(MemoryReuse, ResultsAreRightOnOneStreamAndOnSeveral) {
  constexpr std::uint64_t kPart = 4096;
  FlexStream* const streams[] = {&on(), &context_->runtime().next_stream(StreamPriority::Low),
                                 &context_->runtime().next_stream(StreamPriority::High)};
  for (const std::size_t count : {1U, 3U}) {
    std::vector<std::uint64_t> read(kRounds * kPart / 8);
    for (unsigned i = 0; i < kRounds; ++i) {
      FlexStream& stream = *streams[i / 3 % count];
      const AllocationIndex out = allocator().allocate(kBytes);
      stream.Launch(Job::fill(out, kBytes, i + 1), {});
      stream.Launch(Job::from_device(&read[i * kPart / 8], out, kPart, kBytes - kPart), {});
      allocator().deallocate(out);
    }
    for (FlexStream* stream : streams) EXPECT_NO_THROW(stream->Synchronize(test::soon()));
    for (unsigned i = 0; i < kRounds; ++i) {
      for (std::uint64_t word = 0; word < kPart / 8; ++word) ASSERT_EQ(read[i * kPart / 8 + word], i + 1) << count;
    }
  }
}

// As a cache of keys and values grows: each result is a little larger than the one before, and fits into none that was
// freed lately.
TEST_F(MemoryReuse, AnAllocationWaitsBeforeItExceedsTheBudget) {
  for (std::uint64_t bytes = 4 * kMiB; bytes <= 16 * kMiB; bytes += 128 * wire::kKiB) {
    const AllocationIndex out = allocator().allocate(bytes);
    on().Launch(Job::fill(out, bytes, bytes), {});
    allocator().deallocate(out);
  }
  EXPECT_NO_THROW(on().Synchronize(test::soon()));
}

TEST_F(MemoryReuse, LaunchesOfAStreamShareTheirWorkspace) {
  test::ProgramBuilder builder;
  builder.pool_bytes = 48 * kMiB;
  constexpr std::uint32_t kSticks = 8;
  builder.add_argument(kSticks * wire::kStickBytes, Access::ReadWrite);
  for (std::uint64_t at = 0; at < builder.pool_bytes; at += 4 * kMiB) {
    Operand there = run(kSticks, Base::Pool);
    there.offset = at;
    builder.add(copy(kSticks, run(kSticks, Base::Argument), there));
  }
  ExecutionPlan plan({Job(make("large workspace", builder))});
  context_->load(plan);
  const Argument argument = Argument::raw(allocator().allocate(kSticks * wire::kStickBytes));
  for (unsigned i = 0; i < kRounds; ++i) on().Launch(plan.jobs()[0], {&argument, 1});
  EXPECT_NO_THROW(on().Synchronize(test::soon()));
}

}  // namespace
}  // namespace svp
