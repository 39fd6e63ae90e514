// SPDX-License-Identifier: Apache-2.0
// The limits that several figures are held against, each in nanoseconds for one (round_trip.cpp).
#pragma once

#include "host_driver/frontend/context.hpp"
#include "tests/bench/card/opencl_peer.hpp"

namespace bench {

// A word written by the host and copied back by the card, nothing between them (SELFTEST Echo): median.
double echo_round_trip(svp::Context& card, unsigned count);
// Into U-mode and back by the exit call (SELFTEST EnterExit): mean, by the card's clock.
double enter_exit_pair(svp::Device& physical, unsigned count);
// What it costs more to do so in another address space than before (SELFTEST Switch): the card drops all translations.
double translation_flush(svp::Device& physical, unsigned count);
// An empty OpenCL kernel, enqueued and waited for: median.
double opencl_round_trip(OpenClPeer& peer, unsigned count);

}  // namespace bench
