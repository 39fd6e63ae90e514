// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/attached_source.hpp"

#include <utility>

#include "host_driver/discovery/tenancy.hpp"

namespace svp {

namespace {

class AttachedTimelines final : public TimelineSharing {
 public:
  AttachedTimelines(std::string card, wire::Target function, const Timeouts& timeouts)
      : card_(std::move(card)), function_(function), timeouts_(timeouts) {}

  Expected<TimelineToken> offer(std::uint64_t generation, std::uint32_t stream, std::uint32_t incarnation) override {
    return offer_timeline(
        card_, {.function = function_, .generation = generation, .stream = stream, .incarnation = incarnation},
        timeouts_);
  }
  Expected<TimelineGrant> redeem(const TimelineToken& token, std::uint64_t generation) override {
    return redeem_timeline(card_, token, function_, generation, timeouts_);
  }

 private:
  const std::string card_;
  const wire::Target function_;
  const Timeouts timeouts_;
};

class AttachedSource final : public DeviceSource {
 public:
  AttachedSource(std::shared_ptr<Tenancy> tenancy, wire::Target target, std::string card, OpenOptions options,
                 Timeouts timeouts)
      : tenancy_(std::move(tenancy)),
        target_(target),
        card_(std::move(card)),
        options_(std::move(options)),
        timeouts_(timeouts) {}

  Expected<std::unique_ptr<Device>> open() override {
    if (tenancy_ == nullptr || !tenancy_->alive()) return attach_afresh();
    auto device = tenancy_->open(options_, timeouts_);
    if (device) return device;
    // The card may have ended meanwhile, and come back.
    if (!tenancy_->alive()) return attach_afresh();
    if (device.error().outcome != wire::Outcome::Indeterminate) return device;
    // The function does not answer its owner. M may reset it; when that does not end either, the broker knows what to
    // do.
    if (auto reset = reset_own_function(card_, target_, timeouts_); !reset)
      return std::unexpected(std::move(reset.error()));
    return tenancy_->alive() ? tenancy_->open(options_, timeouts_) : attach_afresh();
  }

  Expected<void> raise(ResetLevel level, bool) override {
    return std::unexpected(ErrorInfo{
        .layer = Layer::Driver,
        .source = card_,
        .outcome = wire::Outcome::Rejected,
        .recoverable = false,
        .next_step = "ask whoever runs the card: spyre reset CARD --firmware",
        .message = "a " + std::string(name(level)) + " concerns all owners of the card and is not for a tenant"});
  }

  ResetLevel highest() const override { return ResetLevel::Function; }
  std::shared_ptr<TimelineSharing> sharing() override {
    return std::make_shared<AttachedTimelines>(card_, target_, timeouts_);
  }

 private:
  Expected<std::unique_ptr<Device>> attach_afresh() {
    tenancy_.reset();
    const auto choice = target_ == wire::kTargetPhysical
                            ? FunctionChoice::physical()
                            : FunctionChoice::virtual_function(target_ - wire::kTargetPhysical);
    auto attached = attach(card_, choice, options_, timeouts_);
    if (!attached) return std::unexpected(std::move(attached.error()));
    tenancy_ = attached->tenancy.lock();
    return std::move(attached->device);
  }

  std::shared_ptr<Tenancy> tenancy_;
  const wire::Target target_;
  const std::string card_;
  const OpenOptions options_;
  const Timeouts timeouts_;
};

}  // namespace

std::unique_ptr<DeviceSource> source_of(const AttachedFunction& attached, std::string card_path, OpenOptions options,
                                        Timeouts timeouts) {
  return std::make_unique<AttachedSource>(attached.tenancy.lock(), attached.target, std::move(card_path),
                                          std::move(options), timeouts);
}

}  // namespace svp
