// SPDX-License-Identifier: Apache-2.0
// The mutants that the campaign is held against: firmware, driver or broker with one check left out. Each names the
// claim of a scenario that has to fail on it, and nothing else may.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "firmware/mutants/mutants.hpp"
#include "host_driver/base/mutants.hpp"
#include "shared/outcome.hpp"
#include "tests/validation/campaign/proof.hpp"

namespace mutants {

using svp::campaign::Proof;

// Proofs that a mutant takes along with the one that it is about, because one cannot be had without the other.
using Proofs = std::uint8_t;
constexpr Proofs only(Proof proof) { return static_cast<Proofs>(1u << static_cast<unsigned>(proof)); }
constexpr Proofs operator|(Proof a, Proof b) { return only(a) | only(b); }

struct Mutant {
  std::string_view scenario;  // "F7"
  std::string_view what;      // is not done; for people
  Proof proof{};              // that has to fail
  std::string_view claim{};   // by this claim
  // One of these two.
  fw::Mutant card = fw::Mutant::None;
  svp::HostMutant driver = svp::HostMutant::None;
  wire::Status status = wire::Status::None;  // of `card`: only where it finds this
  Proofs also = 0;                           // may fail, too: with the reason beside it in mutants.cpp
  bool breaks_off = false;                   // the scenario may end early, by an error that is typed
};

// Claims that a row covers beside its own, because one place in the code decides all of them: forms of one check.
struct SameCheck {
  std::string_view row;       // "F7/crc"
  std::string_view scenario;  // "F7"; "*": every one that makes such a claim
  Proof proof{};
  std::string_view claim;  // a name; "stream-reset/*/1": all that begin and end so
  std::string_view why;    // where it is decided
  // The row's own run cannot fail it, because that ends before, or is of another scenario. Otherwise it has to.
  bool apart = false;
};

std::span<const Mutant> all();
std::span<const SameCheck> same_checks();
// "F7/crc": how a mutant is called.
std::string name_of(const Mutant& mutant);

// What has to notice when a claim becomes worthless. Neither: nothing does.
struct Cover {
  const Mutant* own = nullptr;
  const SameCheck* same = nullptr;
};
// Whether it says something of the card. That a fault fired does not: without it a run is invalid, and no mutant is
// killed.
constexpr bool needs_cover(Proof proof) { return proof != Proof::Fired; }
bool names(const SameCheck& same, std::string_view scenario, Proof proof, std::string_view claim);
Cover cover_of(std::string_view scenario, Proof proof, std::string_view claim);

// Those of a scenario ("F7"), or the one of a name ("F7/crc"). Empty: there is none.
std::vector<const Mutant*> find(std::string_view name);
// `count` of all, the same ones for the same text (a commit's id).
std::vector<const Mutant*> choose(std::size_t count, std::string_view by);

}  // namespace mutants
