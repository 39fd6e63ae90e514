// SPDX-License-Identifier: Apache-2.0
// What check_number_texts must find: a text with six digits behind the point, whatever the number is.
#include <string>

namespace svp::test {

std::string with_six_digits(double number) { return std::to_string(number); }

}  // namespace svp::test
