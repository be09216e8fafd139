// A script of reports only: the server sends no packed index. It runs before the page's script.

import { unpackColumns } from '../decode/packed.js';

globalThis.unpackColumns = unpackColumns;
