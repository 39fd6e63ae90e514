// SPDX-License-Identifier: Apache-2.0
// A process that has opened its card and then given up its privileges, as a daemon does that was started as root: it
// may not signal the emulator, and closes and recovers all the same.
#include <functional>
#include <thread>

#include "tests/device/recovery/recovery_support.hpp"
#include "tests/support/forbidden_signals.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

// What the process does is done by a thread of this one: what is forbidden to it is not to others.
void unprivileged(const std::function<void()>& work) {
  std::thread([&] {
    test::forbid_signals();
    EXPECT_NO_THROW(work());
  }).join();  // bounded: recover() and the destructor of a context are, by Timeouts
}

void expect_works(svp::Context& context) {
  const auto memory = context.runtime().allocator().allocate(wire::kStickBytes);
  context.runtime().default_stream().Launch(Job::fill(memory, wire::kStickBytes, 1), {});
  context.runtime().default_stream().Synchronize(test::in_time());
  context.runtime().allocator().deallocate(memory);
}

TEST(Unprivileged, AContextIsClosedAndItsEmulatorEnds) {
  svp::ContextOptions options;
  options.card = test::small_card();
  auto context = svp::Context::open(std::move(options));
  const pid_t emulator = context->card().machine().pid();
  unprivileged([&] { context.reset(); });
  EXPECT_TRUE(qemu::test::wait_for_end(emulator, test_bounds::kEmulator));
}

TEST(Unprivileged, AContextRecoversAndIsClosed) {
  svp::ContextOptions options;
  options.card = test::small_card();
  auto context = svp::Context::open(std::move(options));
  const pid_t before = context->card().machine().pid();
  pid_t after = 0;
  unprivileged([&] {
    for (const ResetLevel level : {ResetLevel::Function, ResetLevel::Card, ResetLevel::PowerCycle}) {
      EXPECT_EQ(context->recover(level).level(), level);
      expect_works(*context);
    }
    after = context->card().machine().pid();
    context.reset();
  });
  for (const pid_t emulator : {before, after}) {
    EXPECT_TRUE(qemu::test::wait_for_end(emulator, test_bounds::kEmulator));
  }
}

}  // namespace
}  // namespace svp
