// SPDX-License-Identifier: Apache-2.0
// Every function of a card can work, whatever the card's options and whatever another function does: 16 tenants, each
// with tensors and a launch, and a tenant that takes, touches and releases all the memory that it can get.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "host_driver/cli/card_shape.hpp"
#include "host_driver/frontend/context.hpp"
#include "shared/boot_arguments.hpp"
#include "tests/conformance/workbench.hpp"

namespace svp {
namespace {

using svp::Context;
using test::Workbench;
using wire::kGranuleBytes;
using wire::kMiB;
using wire::Outcome;
using wire::RegionType;

constexpr unsigned kTenants = wire::boot::kMaxVirtualFunctions;
constexpr std::int64_t kRows = 64;
constexpr std::int64_t kColumns = 64;

std::shared_ptr<Card> boot(const CardOptions& options) { return value_or_throw(Card::boot(options)); }

std::unique_ptr<Context> tenant_of(const std::shared_ptr<Card>& card, unsigned function) {
  svp::ContextOptions options;
  options.function = function;
  return Context::open(card, std::move(options));
}

// Two tensors to the card, their sum by a kernel, and back. Small whole numbers: exact in every format.
void add_on(Context& context, int seed) {
  const auto shape = HostShape::contiguous(DataType::Float32, {kRows, kColumns});
  std::vector<float> a(kRows * kColumns);
  std::vector<float> b(a.size());
  std::vector<float> sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(static_cast<int>(i % 17) + seed);
    b[i] = static_cast<float>(i % 5);
  }
  const svp::SpyreTensor tensors[] = {context.to_device({shape, std::as_bytes(std::span(a))}, DeviceType::Dl16),
                                      context.to_device({shape, std::as_bytes(std::span(b))}, DeviceType::Dl16),
                                      context.empty(DataType::Float32, {kRows, kColumns}, DeviceType::Dl16)};
  const auto kernel = context.kernel("add");
  DimensionExtents extents;
  const auto& dimensions = kernel->metadata().dimensions;
  for (std::size_t d = 0; d < dimensions.size(); ++d) extents[dimensions[d]] = d == 0 ? kRows : kColumns;
  ExecutionPlan plan({Job(CompiledKernel(kernel, extents))});
  context.load(plan);
  auto stream = context.default_stream();
  stream.Launch(plan.jobs()[0], tensors);
  context.to_host(tensors[2], {shape, std::as_writable_bytes(std::span(sum))}, stream);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(sum[i], a[i] + b[i]) << i;
}

// All of them at once, and then each works.
void expect_room_for_all(const CardOptions& options) {
  const auto card = boot(options);
  std::vector<std::unique_ptr<Context>> tenants;
  for (unsigned function = 0; function <= options.virtual_functions; ++function) {
    SCOPED_TRACE("function " + std::to_string(function));
    ASSERT_NO_THROW(tenants.push_back(tenant_of(card, function)));
    // Before the next one opens: the first may not have taken what the last will need.
    ASSERT_NO_THROW(add_on(*tenants.back(), static_cast<int>(function)));
    EXPECT_NE(tenants.back()->device().config().share_bytes, 0u);
  }
  for (const auto& tenant : tenants) ASSERT_NO_THROW(add_on(*tenant, 3));
}

cli::CardShape shape_of_sixteen() {
  cli::CardShape shape;
  shape.virtual_functions = kTenants;
  return shape;
}

TEST(SixteenTenants, WorkOnTheDefaultCard) {
  CardOptions options;
  options.virtual_functions = kTenants;
  expect_room_for_all(options);
}

// docs/cards.md: --vfs is 16 in all of them.
TEST(SixteenTenants, WorkWithEveryDocumentedOption) {
  struct Option {
    const char* name;
    void (*set)(cli::CardShape&);
  };
  const Option options[] = {{"--cores 1", [](cli::CardShape& shape) { shape.cores = 1; }},
                            {"--memory 4G", [](cli::CardShape& shape) { shape.memory_bytes = 4 * wire::kGiB; }},
                            {"--spares 2", [](cli::CardShape& shape) { shape.spare_slots = 2; }},
                            {"--quota 8G", [](cli::CardShape& shape) { shape.quota_bytes = 8 * wire::kGiB; }},
                            {"--quota 4M", [](cli::CardShape& shape) { shape.quota_bytes = 4 * kMiB; }},
                            {"--budget 256M", [](cli::CardShape& shape) { shape.budget_bytes = 256 * kMiB; }},
                            {"--quota 64M --budget 128M", [](cli::CardShape& shape) {
                               shape.quota_bytes = 64 * kMiB;
                               shape.budget_bytes = 128 * kMiB;
                             }}};
  for (const Option& option : options) {
    SCOPED_TRACE(option.name);
    cli::CardShape shape = shape_of_sixteen();
    option.set(shape);
    expect_room_for_all(cli::card_options(shape, 1));
  }
}

TEST(OneContext, HasTheWholeCard) {
  for (const unsigned function : {0u, 2u}) {
    svp::ContextOptions options;
    options.function = function;
    const auto context = Context::open(std::move(options));
    const wire::DeviceConfig& config = context->device().config();
    EXPECT_EQ(config.share_bytes, config.memory_bytes);
    add_on(*context, 1);
  }
}

// ---- a hostile tenant -----------------------------------------------------------------------------------------------

wire::Endpoint in(const Region& region, std::uint64_t offset) {
  return {region.base.region_id, offset, region.generation, wire::EndpointKind::Region, {}};
}

Outcome fill(Device& device, const Region& region, std::uint64_t offset, std::uint64_t bytes) {
  test::CompletionRecorder endings;
  const wire::ControlBlock block = Workbench::fill(in(region, offset), bytes, ~std::uint64_t{0});
  const ControlBlockRequest request{&block, &endings};
  if (value_or_throw(device.submit(0, {&request, 1})) != 1) throw std::runtime_error("the stream took no block");
  const auto status = device.wait_until([&] { return endings.ended() == 1; }, test::soon());
  if (status == WaitStatus::TimedOut) std::abort();  // the card would call a recorder that is gone
  return endings.all().front().outcome;
}

// All regions that the card gives, as large as it gives them, 128 bytes in every granule as long as it lets us.
std::vector<Region> take_all(Device& device) {
  std::vector<Region> held;
  for (std::uint64_t bytes = 16 * wire::kGiB; bytes >= kGranuleBytes; bytes /= 2) {
    while (auto region = device.acquire_region(RegionType::Tensor, bytes)) held.push_back(*region);
  }
  bool full = false;
  for (const Region& region : held) {
    for (std::uint64_t at = 0; at < region.bytes && !full; at += kGranuleBytes) {
      full = fill(device, region, at, 128) != Outcome::Ok;
    }
  }
  if (full) value_or_throw(device.reset_stream(0));
  return held;
}

TEST(AHostileTenant, NeverTakesWhatItsNeighbourIsGuaranteed) {
  constexpr std::uint64_t kBudget = 96 * kMiB;
  constexpr unsigned kFunctions = 3;
  CardOptions options;
  options.virtual_functions = kFunctions - 1;
  options.populated_budget_bytes = kBudget;
  const auto card = boot(options);
  const auto hostile = value_or_throw(card->open_virtual(1));
  const auto neighbour = value_or_throw(card->open_virtual(2));
  std::vector<Region> held;
  for (int round = 0; round < 6; ++round) {
    for (const Region& region : held) value_or_throw(hostile->release_region(region));
    held = take_all(*hostile);
    ASSERT_FALSE(held.empty());
    // While it holds all that, and while what it released is not clean: memory, table entries, and pages to write on.
    const auto large = value_or_throw(
        neighbour->acquire_region(RegionType::Tensor, neighbour->config().memory_bytes / kFunctions / 2));
    const auto small = value_or_throw(neighbour->acquire_region(RegionType::Program, kGranuleBytes));
    EXPECT_EQ(fill(*neighbour, large, 0, kBudget / kFunctions - kGranuleBytes), Outcome::Ok) << "round " << round;
    EXPECT_EQ(fill(*neighbour, small, 0, kGranuleBytes), Outcome::Ok) << "round " << round;
    value_or_throw(neighbour->release_region(large));
    value_or_throw(neighbour->release_region(small));
  }
}

}  // namespace
}  // namespace svp
