// SPDX-License-Identifier: Apache-2.0
// A tenant whose jobs are timed one by one while others do what they like, and what its times say.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "tests/bench/card/add_job.hpp"
#include "tests/bench/card/block_client.hpp"
#include "tests/bench/card/statistics.hpp"

namespace bench {

// Polled: DeviceOptions::polled, for one thread that goes round several functions.
enum class Waits { Spinning, Sleeping, Polled };

// Virtual function `vf` of a card that several tenants share, with regions that leave room for all of them.
std::unique_ptr<svp::Context> open_tenant(std::shared_ptr<svp::Card> card, unsigned vf, Waits waits);

class Victim {
 public:
  virtual ~Victim() = default;
  // One or two jobs, checked; appends the time of each from submission to completion, in nanoseconds. Throws
  // MeasurementError when a result is wrong, svp::Error when the card is gone.
  virtual void sample(std::vector<double>& times) = 0;

 protected:
  // What the work took, in nanoseconds.
  template <typename Work>
  static double timed(Work work) {
    const auto start = Clock::now();
    work();
    return ns_since(start);
  }
};

// An empty control block.
class NopVictim final : public Victim {
 public:
  explicit NopVictim(svp::Context& tenant) : client_(tenant.device()) {}
  void sample(std::vector<double>& times) override;

 private:
  BlockClient client_;
};

// 1 MiB to the card and back, two jobs a sample; fresh data, every byte compared.
class TransferVictim final : public Victim {
 public:
  explicit TransferVictim(svp::Context& tenant);
  void sample(std::vector<double>& times) override;

 private:
  BlockClient client_;
  svp::PinnedBuffer out_;
  svp::PinnedBuffer back_;
  std::shared_ptr<const svp::DeviceStorage> storage_;
  svp::ResolvedAllocation place_;
  std::uint64_t word_ = 0;
};

// A kernel on core 0, some 2 ms long; every element compared.
class KernelVictim final : public Victim {
 public:
  explicit KernelVictim(svp::Context& tenant);
  void sample(std::vector<double>& times) override;

 private:
  svp::Context& tenant_;
  AddJob add_;
};

// Times of one victim with and without others, in the same run, in nanoseconds.
struct Compared {
  std::vector<double> alone;
  std::vector<double> disturbed;
  // The same times as multiples of what a job took alone in the same block (the median there). A machine whose memory
  // or clock slows down for some blocks moves the times of these blocks, and would fill a percentile over all of them.
  std::vector<double> alone_relative;
  std::vector<double> disturbed_relative;
  // Of the multiples, disturbed / alone at the same rank: 0.5 the median, 0.99.
  double ratio(double part) const;
};

// Alternates between blocks of samples without and with the disturbance, so that a machine that slows down for a while
// slows both. At least `samples` of each. One block of each goes before: the disturbance's memory is touched for the
// first time then, which is the host's business.
Compared compare(Victim& victim, std::size_t samples, const std::function<void()>& start,
                 const std::function<void()>& stop);

}  // namespace bench
