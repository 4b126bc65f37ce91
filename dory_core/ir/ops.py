"""All kinds of layers by name: ``ops.Conv``, ``ops.Linear``; each has its file in ``kinds/``."""

from dory_core.ir.kinds import KINDS as KINDS
from dory_core.ir.kinds.arg_max import ArgMax as ArgMax
from dory_core.ir.kinds.avg_pool import AvgPool as AvgPool
from dory_core.ir.kinds.avg_pool import RealMean as RealMean
from dory_core.ir.kinds.concat import Concat as Concat
from dory_core.ir.kinds.conv import Conv as Conv
from dory_core.ir.kinds.conv_transpose import ConvTranspose as ConvTranspose
from dory_core.ir.kinds.linear import Linear as Linear
from dory_core.ir.kinds.log_softmax import LogSoftmax as LogSoftmax
from dory_core.ir.kinds.lstm import LSTM_STEPS as LSTM_STEPS
from dory_core.ir.kinds.lstm import Lstm as Lstm
from dory_core.ir.kinds.lut import Lut as Lut
from dory_core.ir.kinds.max_pool import MaxPool as MaxPool
from dory_core.ir.kinds.operator import Operator as Operator
from dory_core.ir.kinds.operator import Triple as Triple
from dory_core.ir.kinds.pad import Pad as Pad
from dory_core.ir.kinds.pairwise import Add as Add
from dory_core.ir.kinds.pairwise import Maximum as Maximum
from dory_core.ir.kinds.pairwise import Minimum as Minimum
from dory_core.ir.kinds.pairwise import Mul as Mul
from dory_core.ir.kinds.pairwise import Pairwise as Pairwise
from dory_core.ir.kinds.reshape import Reshape as Reshape
from dory_core.ir.kinds.resize import Resize as Resize
from dory_core.ir.kinds.slice import Slice as Slice
from dory_core.ir.kinds.softmax import Softmax as Softmax
from dory_core.ir.kinds.transpose import Transpose as Transpose
from dory_core.ir.kinds.weighted import Weighted as Weighted
from dory_core.ir.kinds.window import Window as Window

#: The name of :class:`Operator` before operators had methods.
Op = Operator
