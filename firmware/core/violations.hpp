// SPDX-License-Identifier: Apache-2.0
// What a function did that it may not: counted at once, told once a heartbeat whatever the number. Hart 0 only.
#pragma once

#include <cstdint>
#include <utility>

#include "shared/outcome.hpp"

namespace fw {

class Violations {
 public:
  void count(wire::Status status) {
    ++count_;
    last_ = status;
  }
  std::uint64_t count() const { return count_; }  // since the function was bound
  wire::Status last() const { return last_; }
  // Whether there are some that M has not been told of; it is told now.
  bool tell() { return std::exchange(told_, count_) != count_; }
  void forget() { count_ = told_ = 0; }

 private:
  std::uint64_t count_ = 0;
  std::uint64_t told_ = 0;
  wire::Status last_ = wire::Status::None;
};

// The driver of the function itself is told of violations of its rings.
class RingViolations {
 public:
  // `count` of them so far: whether there are some that it has not been told of; it is told now.
  bool tell(std::uint64_t count) { return std::exchange(told_, count) != count; }
  bool told(std::uint64_t count) const { return told_ == count; }
  // The first one of a heartbeat's time is told at once: true once per heartbeat.
  bool first_of(std::uint64_t heartbeat) { return std::exchange(told_at_, heartbeat) != heartbeat; }

 private:
  std::uint64_t told_ = 0;
  std::uint64_t told_at_ = ~std::uint64_t{0};
};

}  // namespace fw
