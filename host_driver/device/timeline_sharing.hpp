// SPDX-License-Identifier: Apache-2.0
// Lets streams of one function wait for a stream of another: the owner of a timeline gets a token for it, and who has
// the token a grant by M for its own function (EVENT_GRANT). Only the owner of a function can offer its timelines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "host_driver/base/error.hpp"
#include "host_driver/device/device.hpp"
#include "shared/admin.hpp"

namespace svp {

// The stream of a function as its owner knows it. The reset of the function ends it, and so does STREAM_OPEN.
struct Timeline {
  wire::Target function = wire::kTargetPhysical;
  std::uint64_t generation = 0;  // of the function
  std::uint32_t stream = 0;
  std::uint32_t incarnation = 0;
  friend auto operator<=>(const Timeline&, const Timeline&) = default;
};

// Cannot be guessed: whoever has the bytes was given them.
using TimelineToken = std::array<std::byte, 16>;
std::string to_text(const TimelineToken& token);  // 32 hexadecimal digits
std::optional<TimelineToken> token_from(std::string_view text);

// What the card lets a function wait by.
struct TimelineGrant {
  std::uint32_t grant = 0;
  std::uint64_t epoch = 0;
  friend bool operator==(const TimelineGrant&, const TimelineGrant&) = default;
};

// For one function. Thread-safe; calls block, within Timeouts::attach or Timeouts::admin.
class TimelineSharing {
 public:
  virtual ~TimelineSharing() = default;

  // Of the function itself, as it is in this generation.
  virtual Expected<TimelineToken> offer(std::uint64_t generation, std::uint32_t stream, std::uint32_t incarnation) = 0;
  // A grant for the function in its present `generation`. The same again is the same one. Errors: the token is not
  // known, or the owner's function was reset since; the function holds as many grants as it can (Status::OutOfGrants).
  virtual Expected<TimelineGrant> redeem(const TimelineToken& token, std::uint64_t generation) = 0;
};

// Tokens that were given out, by whoever holds M. Per function the last kMostTimelines, of its last generation.
class TimelineOffers {
 public:
  static constexpr std::size_t kMostTimelines = 256;

  // The same timeline again has the same token.
  TimelineToken offer(const Timeline& timeline);
  std::optional<Timeline> find(const TimelineToken& token) const;
  // Its owner has gone.
  void forget(wire::Target function);
  // The card has been powered off: its generations begin again.
  void clear();

 private:
  struct Offer {
    Timeline timeline;
    TimelineToken token;
  };
  mutable std::mutex mutex_;
  std::map<wire::Target, std::deque<Offer>> offers_;  // the oldest first
};

// EVENT_GRANT by M. Errors: what the card refuses, M gone.
Expected<TimelineGrant> grant_timeline(Device& management, const Timeline& timeline, wire::Target grantee,
                                       std::uint64_t grantee_generation);

// What redeem() says of a token that nobody has given out, or whose timeline is gone.
ErrorInfo unknown_timeline();

}  // namespace svp
