// SPDX-License-Identifier: Apache-2.0
#include "qemu/embedded_function.hpp"

#include <utility>

namespace svp {

namespace {

class EmbeddedTimelines final : public TimelineSharing {
 public:
  EmbeddedTimelines(std::shared_ptr<Card> card, wire::Target function) : card_(std::move(card)), function_(function) {}

  Expected<TimelineToken> offer(std::uint64_t generation, std::uint32_t stream, std::uint32_t incarnation) override {
    return card_->offer_timeline(
        {.function = function_, .generation = generation, .stream = stream, .incarnation = incarnation});
  }
  Expected<TimelineGrant> redeem(const TimelineToken& token, std::uint64_t generation) override {
    return card_->redeem_timeline(token, function_, generation);
  }

 private:
  const std::shared_ptr<Card> card_;
  const wire::Target function_;
};

class EmbeddedFunction final : public DeviceSource {
 public:
  EmbeddedFunction(std::shared_ptr<Card> card, unsigned function, OpenOptions options)
      : card_(std::move(card)), function_(function), options_(std::move(options)) {}

  Expected<std::unique_ptr<Device>> open() override {
    seen_ = card_->boots();
    return function_ == 0 ? card_->open_physical(options_) : card_->open_virtual(function_, options_);
  }
  Expected<void> raise(ResetLevel level, bool wanted) override {
    return card_->raise(level, wanted ? card_->boots() : seen_, wanted);
  }
  ResetLevel highest() const override { return ResetLevel::PowerCycle; }
  std::shared_ptr<TimelineSharing> sharing() override {
    return std::make_shared<EmbeddedTimelines>(card_, wire::target_of_virtual(function_));
  }

 private:
  const std::shared_ptr<Card> card_;
  const unsigned function_;
  const OpenOptions options_;
  std::uint64_t seen_ = 0;  // boot of the card that open() looked at last
};

}  // namespace

std::unique_ptr<DeviceSource> function_of(std::shared_ptr<Card> card, unsigned function, OpenOptions options) {
  return std::make_unique<EmbeddedFunction>(std::move(card), function, std::move(options));
}

}  // namespace svp
