// SPDX-License-Identifier: Apache-2.0
// What the layer above implements to be called by a Device. No ownership: the device keeps the plain pointer until the
// last call, no longer.
//
// All calls come on the thread that happens to reap: a thread inside Device::wait_until() or admin(), or the event
// loop. One call at a time per device. From inside a call
//   allowed: Device::submit() (of any stream), Device::wake_waiters(), short locks of one's own, handing work to other
//   threads;
//   not allowed: blocking, Device::wait_until(), admin() and everything built on them (refused at once with a typed
//   error), destroying the Device.
#pragma once

#include <cstdint>

#include "shared/control_block.hpp"

namespace svp {

// Is told how one control block ended: called exactly once per accepted block. Blocks of one stream are reported in the
// order in which they were submitted.
class CompletionSink {
 public:
  // stream, incarnation, generation, sequence and cookie are the driver's own; outcome, status, field, times, bytes,
  // slices and fault are the card's (or the driver's, after a death: outcome Lost or Indeterminate, status None).
  virtual void on_completion(const wire::Completion& completion) noexcept = 0;

 protected:
  ~CompletionSink() = default;
};

// Is told that a stream whose last submit() was cut short may submit again. One submit() that was cut short, one call;
// it may come, on another thread, before that submit() has returned.
class CreditSink {
 public:
  virtual void on_credits(std::uint32_t stream) noexcept = 0;

 protected:
  ~CreditSink() = default;
};

}  // namespace svp
