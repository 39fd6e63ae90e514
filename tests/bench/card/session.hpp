// SPDX-License-Identifier: Apache-2.0
// What the measurements of one run share: options, report, peers, and one booted card.
#pragma once

#include <memory>
#include <string>

#include "host_driver/frontend/context.hpp"
#include "tests/bench/card/blas_peer.hpp"
#include "tests/bench/card/measurement_error.hpp"
#include "tests/bench/card/opencl_peer.hpp"
#include "tests/bench/card/report.hpp"

namespace bench {

struct Options {
  bool quick = false;
  unsigned rounds = 5;  // at least 3, so that there is a spread
  unsigned cores = 0;   // of the shared card; 0: as the driver chooses
  // Cards with the compute array, without, or each figure on cards with it and then on cards without.
  enum class Array { On, Off, Both } array = Array::Both;
};

class Session {
 public:
  explicit Session(Options options);

  const Options& options() const { return options_; }
  Report& report() { return report_; }
  // Adds to the report and tells whoever watches.
  void add(Row row);
  // Cards that are opened from now on, by this process and its children, have the compute array or not.
  void use_array(bool array);
  bool has_array() const { return array_; }
  // The goal of a figure with the compute array, and without.
  Goal goal(Goal with_array, Goal without) const { return array_ ? with_array : without; }
  // `many` operations, or fewer in a quick run.
  unsigned amount(unsigned many) const { return options_.quick ? std::max(1u, many / 5) : many; }

  // Booted at the first call. Throws svp::Error.
  svp::Context& card();
  // For measurements that boot their own: two emulators would share the CPUs.
  void end_card() { card_.reset(); }

  // Null when the peer is not there; the report says so then.
  OpenClPeer* opencl();
  BlasPeer* blas();

 private:
  Options options_;
  Report report_;
  std::unique_ptr<svp::Context> card_;
  bool array_ = true;
  std::string chosen_array_;  // SPYRE_ARRAY at the start
  std::unique_ptr<OpenClPeer> opencl_;
  std::unique_ptr<BlasPeer> blas_;
  bool opencl_asked_ = false;
  bool blas_asked_ = false;
};

// The measurements; each adds its rows to the session's report.
void measure_launch_cost(Session& session);      // P1
void measure_round_trips(Session& session);      // P2
void measure_empty_kernel(Session& session);     // P3
void measure_throughput(Session& session);       // P4
void measure_transfers(Session& session);        // P5
void measure_strided(Session& session);          // P5, strided DMA
void measure_staged(Session& session);           // P5, staged and registered memory
void measure_layout(Session& session);           // P6
void measure_matmul(Session& session);           // P7
void measure_operations(Session& session);       // P8
void measure_cold_start(Session& session);       // P9
void measure_stream_reset(Session& session);     // P10
void measure_allocator(Session& session);        // P11
void measure_overlap(Session& session);          // P13
void measure_flex_transfers(Session& session);   // P14
void measure_flex_launches(Session& session);    // P14
void measure_flex_operations(Session& session);  // P15
void measure_compile_time(Session& session);     // P16, without a card
void measure_flex_start(Session& session);       // P14, on a card of its own
// On cards of their own, with eight virtual functions.
void measure_function_reset(Session& session);    // P10
void measure_scrub(Session& session);             // P10
void measure_many(Session& session);              // P12
void measure_idle_neighbours(Session& session);   // N1
void measure_noisy_neighbours(Session& session);  // N1
void measure_attach(Session& session);            // N2
void measure_owners(Session& session);            // N3

}  // namespace bench
