// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/management.hpp"

#include <string>

#include "tests/bench/card/measurement_error.hpp"
#include "tests/support/admin_requests.hpp"

namespace bench {

namespace {

constexpr unsigned kManagementSlot = 0;

std::unique_ptr<svp::Device> attach(svp::Card& card) {
  auto slot = card.machine().slot(kManagementSlot);
  require(slot.has_value(), "no handle of the management slot");
  auto exit_fd = card.machine().exit_fd();
  require(exit_fd.has_value(), "no descriptor of the card's end");
  svp::DeviceOptions options;
  options.exit_fd = *std::move(exit_fd);
  options.timeouts = card.options().timeouts;
  return svp::value_or_throw(svp::Device::attach(*std::move(slot), std::move(options)));
}

}  // namespace

Management::Management(svp::Card& card) : device_(attach(card)) {}

Management::FunctionReply Management::command(wire::AdminCommand command, wire::Target target) {
  const wire::AdminReply reply = svp::test::manage(*device_, command, target);
  require(reply.outcome == wire::Outcome::Ok, std::string(wire::name(command)) + " of function " +
                                                  std::to_string(target) +
                                                  " was refused: " + std::string(wire::name(reply.status)));
  return reply.values.function;
}

void Management::wait_scrubbed() {
  const auto deadline = svp::Device::Clock::now() + kScrubBound;
  for (std::uint64_t left = 1; (left = query(wire::kTargetPhysical).scrub_bytes) != 0;) {
    require(svp::Device::Clock::now() < deadline,
            "released memory was not clean in time, " + std::to_string(left) + " bytes are left");
  }
}

}  // namespace bench
