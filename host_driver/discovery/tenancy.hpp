// SPDX-License-Identifier: Apache-2.0
// What a broker has granted to this process: a function, as long as the connection is open. Devices on it may come and
// go.
#pragma once

#include "host_driver/device/device.hpp"

#include <sys/types.h>

#include <memory>
#include <vector>

#include "host_driver/base/unique_fd.hpp"
#include "host_driver/discovery/broker_message.hpp"

namespace svp {

class Tenancy : public std::enable_shared_from_this<Tenancy> {
 public:
  // `descriptors`: as they came with the grant; checked (number, kind, size and seals of the window). `folder`: the
  // card's, absolute; where its broker is asked whether a debugger holds it.
  static Expected<std::shared_ptr<Tenancy>> take(const Grant& grant, std::vector<UniqueFd> descriptors,
                                                 UniqueFd connection, pid_t broker, std::string folder);

  const Grant& grant() const { return grant_; }
  pid_t broker() const { return broker_; }
  // False: the card's emulator or its broker has ended, or the broker has taken the function back.
  bool alive() const;

  // The function, brought up. One device at a time. It keeps the tenancy. Without `loop` the device gets one of its
  // own.
  Expected<std::unique_ptr<Device>> open(const OpenOptions& options, const Timeouts& timeouts,
                                         std::shared_ptr<EventLoop> loop = nullptr);

 private:
  Tenancy(const Grant& grant, std::vector<UniqueFd> descriptors, UniqueFd connection, pid_t broker, std::string folder);

  const Grant grant_;
  const UniqueFd window_;
  const UniqueFd doorbell_to_card_;
  const UniqueFd doorbell_from_card_;
  const UniqueFd death_;
  const UniqueFd connection_;
  const pid_t broker_;
  const std::string folder_;
};

}  // namespace svp
