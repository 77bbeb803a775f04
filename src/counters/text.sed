# SPDX-License-Identifier: BSD-3-Clause
# Makes C of a text: one string. The line that declares it is given before.
s/[\\"]/\\&/g
s/	/\\t/g
s/.*/"&\\n"/
$a ;
