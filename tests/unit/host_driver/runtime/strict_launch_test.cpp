// SPDX-License-Identifier: Apache-2.0
// A strict launch (docs/tiling.md) stays strict on each way to the card: launched, prepared, captured, and patched
// afterwards. What it refuses here is taken by the same way when tiled launch is allowed, with the same blocks.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host_driver/runtime/prepared_launches.hpp"
#include "tests/unit/host_driver/runtime/sum_rig.hpp"

namespace svp {
namespace {

using Arguments = std::vector<Argument>;
using Use = std::function<void(const Job& job, const Arguments& arguments, const LaunchOptions& options)>;

std::string refused_operand(const std::function<void()>& call) {
  try {
    call();
  } catch (const TiledLaunchNotAllowed& error) {
    return error.field();
  }
  return "accepted";
}

class StrictLaunch : public testing::Test {
 protected:
  StrictLaunch() {
    for (int i = 0; i < 3; ++i) {
      exact_.push_back({.allocation = rig_.runtime.allocator().allocate(kBytes), .shape = {16, 64}});
    }
    smaller_ = larger_ = repeated_ = view_ = exact_;
    for (Argument& argument : smaller_) argument.shape = {15, 64};
    for (Argument& argument : larger_) argument.shape = {17, 64};
    repeated_[1].shape = {1, 64};
    view_[1].stride = std::array<std::uint64_t, Shape::kMaxRank>{256, 32 * 128};
  }

  Job sixteen_rows() { return rig_.load(Job(CompiledKernel(test::sum_kernel(), {{"M", 16}, {"N", 64}}))); }
  std::shared_ptr<PreparedLaunches> prepared(const Job& job, const LaunchOptions& options) {
    const LaunchRequest request{.job = &job, .arguments = exact_, .options = options};
    return rig_.stream.Prepare(std::span(&request, 1));
  }
  std::shared_ptr<PreparedLaunches> captured(const Job& job, const LaunchOptions& options) {
    rig_.stream.BeginCapture();
    (void)rig_.stream.Launch(job, exact_, options);
    return rig_.stream.EndCapture();
  }
  void patch(PreparedLaunches& launches, const Arguments& arguments) {
    (void)rig_.stream.Patch(launches, 0, arguments, nullptr);
    (void)rig_.stream.Launch(launches);
    rig_.stream.Synchronize(test::soon());
  }
  void expect_strict(const Use& use) {
    const Job job = sixteen_rows();
    const auto outcome = [&](const Arguments& arguments, bool tiled) {
      return refused_operand([&] { use(job, arguments, {.allow_tiled_launch = tiled}); });
    };
    EXPECT_EQ(outcome(exact_, false), "accepted");
    EXPECT_EQ(outcome(smaller_, false), "operand a, dimension M");
    EXPECT_EQ(outcome(repeated_, false), "operand b, dimension M");
    EXPECT_EQ(outcome(view_, false), "operand b, dimension M");
    for (const Arguments& other : {smaller_, repeated_, view_}) EXPECT_EQ(outcome(other, true), "accepted");
    EXPECT_EQ(outcome(larger_, false), "operand a, dimension M");
    EXPECT_EQ(outcome(exact_, false), "accepted") << "after the refusals";
    rig_.stream.Synchronize(test::soon());
  }

  static constexpr std::uint64_t kBytes = std::uint64_t{64} * 128;
  test::SumRig rig_;
  Arguments exact_, smaller_, larger_, repeated_, view_;
};

TEST_F(StrictLaunch, Launched) {
  expect_strict([&](const Job& job, const Arguments& arguments, const LaunchOptions& options) {
    (void)rig_.stream.Launch(job, arguments, options);
  });
}

TEST_F(StrictLaunch, Prepared) {
  expect_strict([&](const Job& job, const Arguments& arguments, const LaunchOptions& options) {
    const LaunchRequest request{.job = &job, .arguments = arguments, .options = options};
    const auto launches = rig_.stream.Prepare(std::span(&request, 1));
    (void)rig_.stream.Launch(*launches);
  });
}

TEST_F(StrictLaunch, CapturedOnTheStream) {
  expect_strict([&](const Job& job, const Arguments& arguments, const LaunchOptions& options) {
    rig_.stream.BeginCapture();
    const std::string refused = refused_operand([&] { (void)rig_.stream.Launch(job, arguments, options); });
    if (refused != "accepted") {
      rig_.stream.Reset();
      throw TiledLaunchNotAllowed(refused, refused, "");
    }
    (void)rig_.stream.Launch(*rig_.stream.EndCapture());
  });
}

TEST_F(StrictLaunch, PatchedAfterPreparation) {
  expect_strict([&](const Job& job, const Arguments& arguments, const LaunchOptions& options) {
    patch(*prepared(job, options), arguments);
  });
}

TEST_F(StrictLaunch, PatchedAfterACapture) {
  expect_strict([&](const Job& job, const Arguments& arguments, const LaunchOptions& options) {
    patch(*captured(job, options), arguments);
  });
}

TEST_F(StrictLaunch, PatchedASecondTime) {
  expect_strict([&](const Job& job, const Arguments& arguments, const LaunchOptions& options) {
    const auto launches = prepared(job, options);
    patch(*launches, exact_);
    patch(*launches, arguments);
  });
}

}  // namespace
}  // namespace svp
