// SPDX-License-Identifier: Apache-2.0
// M lets the function under test wait for a timeline of another function while an attack goes on: the grant is made
// anew after each reset of the function, and taken back and made again now and then, while waits by it stand.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "host_driver/device/timeline_sharing.hpp"
#include "tests/conformance/provider.hpp"
#include "tests/validation/raw/unawaited.hpp"

namespace svp::conformance {

class GivenGrants {
 public:
  // `grantee`: the driver of the function under test, which is up.
  GivenGrants(const Timeline& timeline, raw::RawDriver& grantee) : timeline_(timeline), grantee_(grantee) {
    const wire::DeviceConfig config = grantee.config();
    target_ = config.kind == wire::FunctionKind::Physical ? wire::kTargetPhysical
                                                          : wire::target_of_virtual(config.function_index);
  }

  // Before each step of the attack.
  void step(raw::UnawaitedRequests& tenant) {
    const bool reset = grantee_.generation() != generation_;
    if (!reset && ++steps_ < (given_ ? kStepsWith : kStepsWithout)) return;
    steps_ = 0;
    if (reset || !given_) return give(tenant);
    wire::AdminRequest request = test::admin_request(wire::AdminCommand::EventRevoke);
    request.arguments.event_revoke = {.grantee = target_, .grant = given_->grant, .epoch = given_->epoch};
    revoked_ += value_or_throw(provider().management().admin(request)).outcome == wire::Outcome::Ok ? 1 : 0;
    given_.reset();
  }
  std::uint64_t revoked() const { return revoked_; }

 private:
  static constexpr unsigned kStepsWith = 400, kStepsWithout = 50;

  void give(raw::UnawaitedRequests& tenant) {
    generation_ = grantee_.generation();
    given_ = value_or_throw(grant_timeline(provider().management(), timeline_, target_, generation_));
    tenant.know_grant({.index = given_->grant, .epoch = given_->epoch},
                      {.id = timeline_.stream, .incarnation = timeline_.incarnation});
  }

  const Timeline timeline_;
  raw::RawDriver& grantee_;
  wire::Target target_ = wire::kTargetSelf;
  std::uint64_t generation_ = 0;
  unsigned steps_ = 0;  // since it was given or revoked
  std::uint64_t revoked_ = 0;
  std::optional<TimelineGrant> given_;
};

}  // namespace svp::conformance
