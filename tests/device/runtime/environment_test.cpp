// SPDX-License-Identifier: Apache-2.0
// A program that was started with SPYRE_ALLOW_TILED_LAUNCH=0. The variable is read once in a program's lifetime, so
// this is one.
#include <cstdlib>

#include "tests/device/runtime/shared_context.hpp"

namespace svp {
namespace {

// Before main(), like a shell.
const bool kForbidden = ::setenv(svp::kAllowTiledLaunchVariable, "0", 1) == 0;

class ForbiddenByTheEnvironment : public test::OneCard {
 protected:
  static svp::SpyreTensor tensor(std::int64_t rows) {
    return context().empty(DataType::Float32, {rows, 64}, DeviceType::Dl16);
  }
};

TEST_F(ForbiddenByTheEnvironment, ATiledLaunchIsRefusedAndTheCompiledShapeIsNot) {
  ASSERT_TRUE(kForbidden);
  ExecutionPlan plan({Job(CompiledKernel(context().kernel("add"), {{"M", 64}, {"N", 64}}))});
  context().load(plan);
  svp::SpyreStream stream = context().default_stream();
  const svp::SpyreTensor tiled[] = {tensor(128), tensor(128), tensor(128)};
  EXPECT_THROW(svp::LaunchKernel(stream, plan, tiled), TiledLaunchNotAllowed);
  ASSERT_EQ(::setenv(svp::kAllowTiledLaunchVariable, "1", 1), 0);
  EXPECT_THROW(svp::LaunchKernel(stream, plan, tiled), TiledLaunchNotAllowed) << "read again";
  EXPECT_THROW(stream.Launch(plan.jobs()[0], tiled), TiledLaunchNotAllowed);
  const svp::SpyreTensor smaller[] = {tensor(32), tensor(32), tensor(32)};
  EXPECT_THROW(svp::LaunchKernel(stream, plan, smaller), TiledLaunchNotAllowed);
  const svp::SpyreTensor rows = tensor(128);
  const svp::SpyreTensor view[] = {tensor(64), rows.slice(0, 0, 128, 2), tensor(64)};
  EXPECT_THROW(svp::LaunchKernel(stream, plan, view), TiledLaunchNotAllowed) << "every second row";
  const svp::SpyreTensor compiled[] = {tensor(64), tensor(64), tensor(64)};
  EXPECT_NO_THROW(svp::LaunchKernel(stream, plan, compiled));
  stream.Synchronize(test::soon());
}

}  // namespace
}  // namespace svp
