# SPDX-License-Identifier: Apache-2.0
# Completion of spyre in bash: the program itself knows its commands, options and the running cards.
_spyre() {
  local IFS=$'\n'
  COMPREPLY=($("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _spyre spyre
