// SPDX-License-Identifier: Apache-2.0
// What the operations of a stream do, inside of a call.
#pragma once

#include <flex/flex.hpp>

#include "host_driver/compat/flex/2026-08-21/context.hpp"

namespace flex::detail {

// All throw svp::Error; what is wrong with an argument before anything is launched.
void send(Context& context, const Context::Call& call, unsigned stream, DmaParams& params);
void receive(Context& context, const Context::Call& call, unsigned stream, DmaParams& params);
void compute(Context& context, const Context::Call& call, unsigned stream, const ComputeParams& params);
void fill(Context& context, const Context::Call& call, unsigned stream, const CompositeAddress* address, double value,
          DataFormats format);

}  // namespace flex::detail
