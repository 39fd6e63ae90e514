// SPDX-License-Identifier: Apache-2.0
// Of spyre-firmware-mutant.elf: at most one check is left out, by boot words.
#include "firmware/mutants/mutants.hpp"

namespace fw {

namespace {

// Written by boot() before any other hart looks; constant afterwards.
Mutant chosen = Mutant::None;
wire::Status chosen_status = wire::Status::None;

}  // namespace

bool mutated(Mutant mutant, wire::Status status) noexcept {
  return mutant == chosen && (chosen_status == wire::Status::None || chosen_status == status);
}

bool choose_mutant(std::uint64_t mutant, std::uint64_t status) noexcept {
  if (mutant > static_cast<std::uint64_t>(Mutant::Last) || status > 0xffff) return false;
  chosen = static_cast<Mutant>(mutant);
  chosen_status = static_cast<wire::Status>(status);
  return true;
}

}  // namespace fw
