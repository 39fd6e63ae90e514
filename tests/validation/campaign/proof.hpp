// SPDX-License-Identifier: Apache-2.0
// What a scenario has to show (docs/campaign.md): five proofs, each with what was seen, and the times between them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace svp::campaign {

enum class Proof : std::uint8_t {
  Fired,      // evidence that the fault happened
  Detected,   // a typed outcome told of it
  Contained,  // canaries, neighbours and other streams are as they should be
  Recovered,  // a good job after it
  Clean,      // descriptors, threads, slots and memory as before
};
inline constexpr std::array kProofs{Proof::Fired, Proof::Detected, Proof::Contained, Proof::Recovered, Proof::Clean};

constexpr std::string_view name(Proof proof) {
  constexpr std::array<std::string_view, kProofs.size()> kNames{"fired", "detected", "contained", "recovered", "clean"};
  return kNames[static_cast<std::size_t>(proof)];
}

// One statement that a scenario has to show. A proof is the claims that are made about it; all have to hold.
struct Claim {
  Proof proof{};
  std::string name;  // within its scenario and proof; empty: evidence that the fault fired
  bool holds = false;
  std::string seen;  // for people; what was counted, or what was wrong
};

// Not given is as good as false: a scenario that ended early has not proved the rest.
struct ProofResult {
  bool given = false;
  bool holds = false;
  std::string seen;  // for people; what was counted, or what was wrong
};

enum class Verdict : std::uint8_t {
  Passed,   // all five proofs
  Failed,   // the fault fired, and one of the others is missing
  Invalid,  // the fault did not fire: nothing was tested
};

constexpr std::string_view name(Verdict verdict) {
  constexpr std::array<std::string_view, 3> kNames{"passed", "failed", "invalid"};
  return kNames[static_cast<std::size_t>(verdict)];
}

// From the moment at which the fault was triggered. Wall time of the host.
struct Times {
  using Duration = std::chrono::nanoseconds;
  std::optional<Duration> detect;   // until the typed outcome was in the caller's hands
  std::optional<Duration> contain;  // until the neighbours had been found unharmed, and went on
  std::optional<Duration> recover;  // until the first good job had ended
};

struct Artifacts;  // artifacts.hpp

// How one run of a scenario ended.
struct Result {
  std::string id;  // "F14"
  std::uint64_t seed = 0;
  std::array<ProofResult, kProofs.size()> proofs{};
  std::vector<Claim> claims{};  // in the order in which they were made
  Times times{};
  std::string trouble;  // what broke the run off; empty: it came to its end
  std::chrono::nanoseconds took{};
  std::shared_ptr<const Artifacts> artifacts{};  // what a failure bundle is made of

  const ProofResult& operator[](Proof proof) const { return proofs[static_cast<std::size_t>(proof)]; }
  ProofResult& operator[](Proof proof) { return proofs[static_cast<std::size_t>(proof)]; }

  Verdict verdict() const {
    if (!(*this)[Proof::Fired].holds) return Verdict::Invalid;
    for (const ProofResult& proof : proofs) {
      if (!proof.holds) return Verdict::Failed;
    }
    return trouble.empty() ? Verdict::Passed : Verdict::Failed;
  }
};

}  // namespace svp::campaign
