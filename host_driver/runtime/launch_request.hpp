// SPDX-License-Identifier: Apache-2.0
// What is asked for with a launch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "host_driver/runtime/argument.hpp"
#include "host_driver/runtime/job.hpp"
#include "host_driver/runtime/launch_observer.hpp"

namespace svp {

struct LaunchOptions {
  bool allow_tiled_launch = true;
  std::uint64_t core_mask = 0;      // 0: the plan's, else by the amount of work
  std::uint64_t budget_slices = 0;  // watchdog; 0: the plan's, else the card's default
  // Begins when everything launched on the stream before has ended: neither a HostOperation in the stream nor a block
  // of the launch before that. Without it both overlap with what is under way.
  bool pipeline_barrier = false;
  LaunchObserver* observer = nullptr;
  // Released when the launch has ended, at the latest before Synchronize() returns: memory that only the launch still
  // needs. Its destructor runs on any thread of the program or of the driver, with no lock of the driver held; it may
  // launch and wait.
  std::shared_ptr<const void> keep_alive{};
};

struct LaunchRequest {
  const Job* job = nullptr;
  std::span<const Argument> arguments{};
  LaunchOptions options{};
};

}  // namespace svp
