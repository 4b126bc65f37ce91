/* Test vectors, all runs one after the other. */
% for name in names:
<% symbol = f"dory_vectors_{name}" %>\
  .section .rodata.${symbol}, "a"
  .balign 8
  .global ${symbol}, ${symbol}_end
${symbol}:
  .incbin "vectors/${name}.bin"
${symbol}_end:
% endfor
