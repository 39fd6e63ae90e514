// SPDX-License-Identifier: Apache-2.0
// A program of the library that was started with SPYRE_ALLOW_TILED_LAUNCH=0. The variable is read once in a program's
// lifetime, so this is one.
#include <array>
#include <cstdlib>
#include <spyre/prepared.hpp>

#include "tests/device/api/api_card.hpp"

namespace {

using spyre::SpyreTensor;
using spyre::TiledLaunchNotAllowed;

// Before main(), like a shell.
const bool kForbidden = ::setenv("SPYRE_ALLOW_TILED_LAUNCH", "0", 1) == 0;

using TiledLaunches = ApiAddition;

TEST_F(TiledLaunches, AreForbiddenOnEveryWayToTheCard) {
  ASSERT_TRUE(kForbidden);
  const auto plan = loaded("add", {{"M", kRows}, {"N", kColumns}});
  const spyre::Job add = plan.jobs()[0];
  auto stream = context().default_stream();
  const SpyreTensor whole = filled(1), larger = filled(1, 2 * kRows);
  const std::array tiled{larger, larger, larger}, compiled{whole, whole, filled(0)};
  const std::span<const SpyreTensor> of_job = tiled;
  const spyre::LaunchOptions allows{.allow_tiled_launch = true};
  EXPECT_THROW((void)stream.Launch(add, tiled), TiledLaunchNotAllowed);
  EXPECT_THROW((void)stream.Launch(add, tiled, allows), TiledLaunchNotAllowed);
  EXPECT_THROW(spyre::LaunchKernel(stream, plan, tiled), TiledLaunchNotAllowed);
  EXPECT_THROW(spyre::LaunchKernel(stream, plan, std::span(&of_job, 1), allows), TiledLaunchNotAllowed);
  EXPECT_THROW((void)spyre::Prepare(stream, add, tiled, allows), TiledLaunchNotAllowed);
  (void)stream.Launch(add, compiled);
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(compiled[2]), 2);
}

}  // namespace
