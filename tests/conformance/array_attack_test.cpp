// SPDX-License-Identifier: Apache-2.0
// A kernel that asks the compute array for random things, on all cores of a function, while a neighbour's kernels
// compute. On a card without array the requests do nothing.
#include <cstdio>
#include <random>
#include <vector>

#include "tests/conformance/adding_neighbour.hpp"
#include "tests/conformance/hand_made_job.hpp"
#include "tests/support/expected_array.hpp"

namespace svp::conformance {
namespace {

constexpr std::uint64_t kAreaBytes = 1 * wire::kMiB;
constexpr std::uint64_t kLaunches = 8;
constexpr std::uint64_t kRequests = 10'000;  // of each core of a launch
constexpr std::uint64_t kCores = 2;

TEST(AttacksBesideKernels, RandomArrayRequestsAreAnsweredAndReachNobodyElse) {
  SCOPED_TRACE("SPYRE_SEED=" + std::to_string(attack_seed()));
  std::mt19937_64 random(attack_seed() + 9);
  AddingNeighbour neighbour;
  const auto context = kernel_provider().open_context();
  ASSERT_EQ(context->device().config().array_version != 0, test::cards_have_array());
  FlexStream& stream = context->runtime().next_stream(StreamPriority::Low);
  // An image of the same function, which requests may not change.
  ExecutionPlan other({Job(CompiledKernel(context->kernel("empty"), {}))});
  context->load(other);
  const AllocationIndex area = context->runtime().allocator().allocate(kAreaBytes);
  neighbour.start();
  for (std::uint64_t launch = 0; launch < kLaunches; ++launch) {
    const std::uint64_t seed = random() >> 1;
    const Job attack = test::job_with_symbols(*context, "array_attack", 1, {seed, kRequests});
    const Argument argument{.allocation = area, .shape = {1, 64}};
    stream.Launch(attack, {&argument, 1}, {.core_mask = (1 << kCores) - 1});
    ASSERT_NO_THROW(stream.Synchronize(test::soon())) << "launch " << launch;
    stream.Launch(other.jobs()[0], {});
    ASSERT_NO_THROW(stream.Synchronize(test::soon())) << "launch " << launch;
  }
  neighbour.stop();
  expect_healthy(context->device());
  provider().expect_alive();
  std::printf("  compute array: %llu requests\n", static_cast<unsigned long long>(kLaunches * kCores * kRequests));
}

}  // namespace
}  // namespace svp::conformance
