// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/probe/probe.hpp"

namespace {

// The value of proof=… on the boot command line; empty: everything that needs no company.
std::string_view chosen_proof() {
  constexpr std::string_view kName = "proof=";
  const std::string_view arguments = hal::boot_arguments();
  const auto at = arguments.find(kName);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = arguments.substr(at + kName.size());
  return rest.substr(0, rest.find(' '));
}

}  // namespace

namespace fw {

[[noreturn]] void boot_main(unsigned /*hart*/) {
  const std::string_view proof = chosen_proof();
  if (proof == "exit") hal::exit(0);
  if (proof == "slots") probe::prove_slots();
  if (proof == "reset") probe::prove_warm_reset();
  if (proof.starts_with("record-")) probe::prove_record(proof.substr(7));
  if (!proof.empty() && proof != "measure") probe::break_on_purpose(proof);
  if (proof.empty()) {
    probe::prove_memory();
    probe::prove_faults();
    probe::prove_address_spaces();
    probe::prove_suspension();
    probe::prove_sleep();
  } else {
    probe::measure();
  }
  probe::finish();
}

}  // namespace fw
