// SPDX-License-Identifier: Apache-2.0
// Which process an object belongs to. After fork() without exec (data loaders do that) the child holds copies of all
// objects of the driver: their threads do not run there, their locks may be held by threads that do not exist there,
// their windows are not mapped there. Such a copy refuses every call, and its destructor touches nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "host_driver/base/error.hpp"

namespace svp {

// Kept by an object: whether the calling process is the one that made it. A few loads; no system call.
class OwnerProcess {
 public:
  OwnerProcess() noexcept : owner_(current()) {}
  bool is_this() const noexcept { return current() == owner_; }

 private:
  // Differs from that of every process that this one descends from.
  static std::uint64_t current() noexcept;

  std::uint64_t owner_;
};

// What a call on a copy is refused with. `what`: "the device", "the runtime".
ErrorInfo made_by_the_parent(std::string what);

// In a forked child: objects whose destructors would wait for threads or locks of the parent. Never destroyed.
void keep_for_ever(std::shared_ptr<const void> object) noexcept;

}  // namespace svp
