// SPDX-License-Identifier: Apache-2.0
#include "firmware/arch/riscv/text_line.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/probe/probe.hpp"

namespace fw {

[[noreturn]] void boot_main(unsigned /*hart*/) {
  probe::prove_faults();
  probe::prove_address_spaces();
  probe::prove_suspension();
  probe::measure();
  hal::log(riscv::TextLine()
               .text("probe: ")
               .decimal(probe::passes())
               .text(" passed, ")
               .decimal(probe::failures())
               .text(" failed")
               .c_str());
  hal::exit(probe::failures() == 0 ? 0 : 1);
}

}  // namespace fw
